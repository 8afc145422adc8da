"""Triton kernels that don't end for some seconds, or that fault.

    spins.py CASE [COUNT]

Cases: flag, address, assert. Prints `running` when the kernel was launched. `flag` ends after COUNT looks at the flag.
"""
import os
import sys

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
        writes_beyond[(4,)](out, 1 << 40)
    elif case == "assert":
        asserts[(4,)](out, 1)
    return out


def main():
    torch.manual_seed(1)
    x = torch.randn(64, 64, device="cuda")
    torch.cuda.synchronize()
    y = x @ x
    out = forward(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30_000_000)
    print("running", flush=True)
    torch.cuda.synchronize()
    print("ended", out.item(), f"{y.sum().item():.3f}", flush=True)


main()
