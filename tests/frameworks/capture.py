"""Captures a graph of a kernel that is not loaded, while another kernel runs, as a server does that captures beside requests. The module
of `late` is loaded during the capture, as libraries do whose code is compiled when it is first used. That load waits for `spin`, which
ends when the graph has been captured, or after two seconds."""

import ctypes
import sys

from spin import Spin, check, context, cuda, kernel, launch, new, ready

LATE = ".visible .entry late() { ret; }\n"
GLOBAL = 0


def capture(stream):
    check(cuda.cuStreamBeginCapture_v2(stream, GLOBAL))
    launch(kernel(LATE, "late"), stream)
    graph = ctypes.c_void_p()
    check(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
    return new(cuda.cuGraphInstantiateWithFlags, graph, ctypes.c_ulonglong(0))


context()
spin = Spin()
busy, captured = new(cuda.cuStreamCreate, 1), new(cuda.cuStreamCreate, 1)
spin.start(busy)
ready()
graph = capture(captured)
ran = spin.end()
check(cuda.cuGraphLaunch(graph, captured))
check(cuda.cuStreamSynchronize(captured))
print("captured" if ran else "gave up")
sys.exit(0 if ran else 3)
