"""Does one thing of PyTorch beside a kernel that runs for two seconds at most: `cumsum`, its first use; `free`, memory; or `free` in a section
that defers, with `--defer`. The second word of the program names it."""

import contextlib
import sys

import torch

from spin import Spin, deferring, ready

x = torch.rand(1000, device="cuda")
spin, side = Spin(), torch.cuda.Stream()
block = torch.empty(64 << 20, device="cuda")
torch.cuda.synchronize()


def first_use():
    return x.cumsum(0)


def free():
    global block
    del block
    torch.cuda.empty_cache()


operation = {"cumsum": first_use, "free": free}[sys.argv[1]]
defers = "--defer" in sys.argv
ready()
with deferring(side.cuda_stream) if defers else contextlib.nullcontext():
    spin.start(side.cuda_stream)
    operation()
    # In a section the program may not wait for the kernel's stream, so it only asks.
    ran = not side.query()
    spin.tell()
if not defers:
    torch.cuda.synchronize()
print(sys.argv[1], "ran" if ran else "waited")
sys.exit(0 if ran else 3)
