"""Kernels of Triton and NCCL that don't end for some seconds, or that fault.

    spins.py CASE [COUNT]

Cases: flag, address, assert, nccl. Prints `running` when the kernel was launched. `flag` ends after COUNT looks at the flag. For `nccl`, a
second process comes late to a collective; its number is printed.
"""
import os
import subprocess
import sys
import time

if sys.argv[1] == "assert":
    os.environ["TRITON_DEBUG"] = "1"

import torch
import triton
import triton.language as tl


@triton.jit
def looks_at(flag, i, n):
    return (tl.atomic_add(flag, 0) == 0) & (i < n)


@triton.jit
def wait_for(flag, out, n):
    i = 0
    while looks_at(flag, i, n):
        i += 1
    tl.store(out, i)


@triton.jit
def writes_beyond(out, far):
    tl.store(out + far, 1)


@triton.jit
def asserts(out, n):
    tl.device_assert(n == 0, "n is not zero")
    tl.store(out, n)


def forward(case, count):
    flag = torch.zeros(1, dtype=torch.int32, device="cuda")
    out = torch.zeros(1, dtype=torch.int64, device="cuda")
    if case == "flag":
        wait_for[(4,)](flag, out, count)
    elif case == "address":
        writes_beyond[(4,)](out, 1 << 44)
    elif case == "assert":
        asserts[(4,)](out, 1)
    return out


def collective(rank):
    """Reduces twice. The second rank comes to the second time some seconds late."""
    import torch.distributed as distributed

    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method="tcp://127.0.0.1:29617", rank=rank, world_size=2)
    x = torch.ones(1 << 20, device="cuda")
    distributed.all_reduce(x)
    torch.cuda.synchronize()
    if rank == 1:
        time.sleep(25)
    distributed.all_reduce(x)
    if rank == 0:
        print("running", flush=True)
    torch.cuda.synchronize()
    print("ended", x.sum().item(), flush=True)
    distributed.destroy_process_group()


def ranks():
    missing = subprocess.Popen([sys.executable, __file__, "nccl-1"], stdout=subprocess.DEVNULL)
    print("the missing rank is", missing.pid, flush=True)
    collective(0)
    sys.exit(missing.wait())


def main():
    torch.manual_seed(1)
    x = torch.randn(64, 64, device="cuda")
    torch.cuda.synchronize()
    y = x @ x
    out = forward(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30_000_000)
    print("running", flush=True)
    torch.cuda.synchronize()
    print("ended", out.item(), f"{y.sum().item():.3f}", flush=True)


{"nccl": ranks, "nccl-1": lambda: collective(1)}.get(sys.argv[1], main)()
