"""Two ranks of PyTorch. Rank 1 begins an all-reduce, uses `cumsum` for the first time, and then tells rank 0 to enter the all-reduce. `torchrun`
starts it. If it hangs, rank 0 gives up after ten seconds, and `torchrun` then ends rank 1."""

import datetime
import os

import torch
import torch.distributed as dist

from spin import ready

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
host = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=10))
x, other, word = torch.ones(1 << 16, device="cuda"), torch.ones(1000, device="cuda"), torch.zeros(1)
# NCCL makes its connections, and PyTorch takes the memory that `cumsum` will need.
dist.all_reduce(x)
torch.empty_like(other)
torch.cuda.synchronize()
dist.barrier(group=host)
ready()
if rank == 1:
    work = dist.all_reduce(x, async_op=True)
    sums = other.cumsum(0)
    dist.send(word, 0, group=host)
    work.wait()
else:
    dist.recv(word, 1, group=host)
    dist.all_reduce(x)
torch.cuda.synchronize()
# In one write: where Python does not buffer its output, several writes of two ranks mix.
print(f"rank {rank} done {x[0].item()}\n", end="", flush=True)
dist.destroy_process_group()
