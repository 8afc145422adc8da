"""Launches a resident kernel for two seconds at most, and beside it an operation that PyTorch compiles when it is first called."""
import ctypes
import time

import cupy
import torch

spin = cupy.RawKernel(
    r"""extern "C" __global__ void spin(volatile unsigned* stop, unsigned long long most) {
        unsigned long long begun, now;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
        do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (!*stop && now - begun < most);
    }""",
    "spin",
)
x = torch.rand(1000, device="cuda") * 0.5
stop = cupy.zeros(1, dtype=cupy.uint32)
spin((1,), (1,), (stop, cupy.uint64(0)))


def goes_on():
    return bool((torch.ones(10, device="cuda").cpu() == 1).all())


goes_on()
torch.special.i1(x)  # loads NVRTC, so that the refusal is not timed with it
torch.cuda.synchronize()

try:
    ctypes.CDLL("libcuda.so.1").kernel_registry_audit_ready()
except AttributeError:
    pass
stream = cupy.cuda.Stream(non_blocking=True)
side = torch.cuda.Stream()
with stream:
    spin((1,), (1,), (stop, cupy.uint64(2_000_000_000)))
begun = time.monotonic()
try:
    with torch.cuda.stream(side):
        torch.erfinv(x)
    result = "ran"
except RuntimeError as error:
    result = "refused" if "800" in str(error) or "NOT_PERMITTED" in str(error) or "not permitted" in str(error) else repr(error)
print("erfinv", result, "blocked" if time.monotonic() - begun > 1.5 else f"after {(time.monotonic() - begun) * 1e3:.1f} ms")
stream.synchronize()
print("goes on", goes_on())
