"""Captures one operation of PyTorch by `torch.cuda.graph`, without having used it before: `cumsum`, whose kernel is in a library, or `erfinv`, which
PyTorch compiles. With `--beside` another kernel runs for two seconds at most."""

import sys
import time

import torch

from spin import Spin, ready

x = torch.rand(1000, device="cuda") * 0.5
spin, side = Spin(), torch.cuda.Stream()
torch.cuda.synchronize()
operation = {"cumsum": lambda: x.cumsum(0), "erfinv": lambda: x.erfinv()}[sys.argv[1]]
graph = torch.cuda.CUDAGraph()
ready()
try:
    with torch.cuda.graph(graph):
        # The stream of the other kernel is not asked, because that may end the capture.
        if "--beside" in sys.argv:
            spin.start(side.cuda_stream)
        begun = time.monotonic()
        y = operation()
        ran = time.monotonic() - begun < 1.5
except Exception as error:
    spin.tell()
    sys.exit(f"the capture failed: {str(error).splitlines()[0]}")
spin.tell()
graph.replay()
torch.cuda.synchronize()
print(sys.argv[1], "captured" if ran else "captured, but waited", y.abs().sum().item() > 0)
sys.exit(0 if ran else 3)
