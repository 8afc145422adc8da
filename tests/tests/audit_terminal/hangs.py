"""Launches a cold kernel beside a kernel that spins, in a call that no signal interrupts. A child process sleeps meanwhile.

With `alone` there is no child. With `frees` there is none either, and the program frees memory beside the spinning kernel instead, which then
ends after half a second.
"""

import ctypes
import os
import sys
import threading
import time

PTX = b""".version 8.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 flag) {
.reg .pred %p; .reg .b32 %r; .reg .b64 %a;
ld.param.u64 %a, [flag];
again: ld.volatile.global.u32 %r, [%a];
setp.eq.u32 %p, %r, 0;
@%p bra again;
ret; }
.visible .entry late(.param .u64 x) { ret; }
"""
FREES = sys.argv[1:] == ["frees"]
if not sys.argv[1:] and os.fork() == 0:
    os.setsid()
    time.sleep(60)
    os._exit(0)

cuda = ctypes.CDLL("libcuda.so.1")


def check(result):
    assert result == 0, result


def new(function, *arguments):
    handle = ctypes.c_void_p()
    check(function(ctypes.byref(handle), *arguments))
    return handle


check(cuda.cuInit(0))
check(cuda.cuCtxSetCurrent(new(cuda.cuDevicePrimaryCtxRetain, 0)))
module = new(cuda.cuModuleLoadData, PTX)
spin = new(cuda.cuModuleGetFunction, module, b"spin")
flag = new(cuda.cuMemHostAlloc, ctypes.c_size_t(4), 2)
ctypes.c_uint32.from_address(flag.value).value = 0
memory = ctypes.c_uint64()
check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)))
streams = [new(cuda.cuStreamCreate, 1), new(cuda.cuStreamCreate, 1)]
argument = ctypes.c_uint64(flag.value)
arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(argument), ctypes.c_void_p))
check(cuda.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, streams[0], arguments, None))
if FREES:
    threading.Timer(0.5, lambda: ctypes.memset(flag.value, 1, 4)).start()
    check(cuda.cuMemFree_v2(memory))
    sys.exit()
late = new(cuda.cuModuleGetFunction, module, b"late")
check(cuda.cuLaunchKernel(late, 1, 1, 1, 1, 1, 1, 0, streams[1], arguments, None))
check(cuda.cuStreamSynchronize(streams[1]))
