"""Calls a kernel that Triton compiles at the first call."""
import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


x = torch.arange(1000, device="cuda", dtype=torch.float32)
out = torch.empty_like(x)
add[(triton.cdiv(1000, 128),)](x, x, out, 1000, BLOCK=128)
print("add", torch.equal(out.cpu(), 2 * x.cpu()))
