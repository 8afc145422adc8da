"""Uses operations of PyTorch for the first time after the program is ready; with `--beside`, each beside a resident kernel of about 0.3
seconds. Prints the results of the operations, and on standard error a line of JSON with times and memory."""
import ctypes
import json
import sys
import time

import torch
from torch.nn.functional import layer_norm

torch.manual_seed(1)
beside = "--beside" in sys.argv
warm = "--warm" in sys.argv
begun = time.monotonic()
x = torch.randn(512, 512).cuda()
index = torch.arange(512).repeat(512, 1).cuda()
operations = {
    "softmax": lambda: x.softmax(1),
    "layer_norm": lambda: layer_norm(x, (512,)),
    "sort": lambda: x.sort(1).values,
    "cumsum": lambda: x.cumsum(1),
    "gather": lambda: x.gather(1, index),
    "max": lambda: x.max(1).values,
    "std": lambda: x.std(1),
    "topk": lambda: x.topk(5, 1).values,
    "matmul": lambda: x @ x,
    "gelu": lambda: torch.nn.functional.gelu(x),
}
# PyTorch's allocator keeps this memory for the operations, which must not allocate from the driver.
pool = [torch.empty(32 << 20, device="cuda"), torch.empty(1 << 20, device="cuda"), torch.empty(256, device="cuda")]
del pool
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    torch.cuda._sleep(1)
event = torch.cuda.Event()
event.record()
torch.cuda.synchronize()
if warm:
    for operation in operations.values():
        operation()
    torch.cuda.synchronize()
start = time.monotonic() - begun
try:
    ctypes.CDLL("libcuda.so.1").kernel_registry_audit_ready()
except (AttributeError, OSError):
    pass

results, times, waited = {}, {}, []
# The cycles of about 0.3 seconds.
CYCLES = 500_000_000
for name, operation in operations.items():
    if beside:
        with torch.cuda.stream(side):
            torch.cuda._sleep(CYCLES)
    begun = time.monotonic()
    try:
        results[name] = operation()
        event.record()
        while not event.query():
            pass
    except RuntimeError as error:
        results[name] = None
        print(name, "failed", str(error).splitlines()[0])
    times[name] = round((time.monotonic() - begun) * 1e3, 2)
    if beside:
        if side.query():
            waited.append(name)
        side.synchronize()
free, total = torch.cuda.mem_get_info()
for name, result in results.items():
    print(name, "none" if result is None else f"{result.double().abs().sum().item():.3f}")
print(
    json.dumps({"start_ms": round(start * 1e3), "first_ms": round(sum(times.values()), 1), "used_mib": (total - free) >> 20, "waited": waited, "times": times}),
    file=sys.stderr,
)
