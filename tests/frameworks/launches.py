"""Launches a kernel in a loop, and prints the microseconds per launch."""
import time

import torch

x = torch.zeros(16, device="cuda")
for _ in range(2000):
    x.add_(1)
torch.cuda.synchronize()
begun = time.monotonic()
for _ in range(20000):
    x.add_(1)
torch.cuda.synchronize()
print((time.monotonic() - begun) / 20000 * 1e6)
