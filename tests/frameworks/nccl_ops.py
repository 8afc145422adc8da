"""Runs NCCL through PyTorch: an all-reduce, a broadcast and an all-gather. `RANK` and `WORLD_SIZE` tell the rank of this process."""
import os

import torch
import torch.distributed as dist

rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29531")
torch.cuda.set_device(rank)
dist.init_process_group("nccl", rank=rank, world_size=world)
x = torch.full((1000,), float(rank + 1), device="cuda")
dist.all_reduce(x)
print("all_reduce", x.eq(sum(range(1, world + 1))).all().item())
dist.broadcast(x, 0)
parts = [torch.empty_like(x) for _ in range(world)]
dist.all_gather(parts, x)
print("all_gather", all(part.equal(x) for part in parts))
dist.destroy_process_group()
