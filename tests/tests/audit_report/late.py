"""Loads kernels in several threads. The first thread loads half of its kernels, says that the program is ready, and loads the rest."""

import argparse
import ctypes
import os
import signal
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--kernels", type=int, default=4)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--resizes", type=int, default=0)
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--after", type=float, default=0)
parser.add_argument("--hang", action="store_true")
parser.add_argument("--killed", action="store_true")
parser.add_argument("rest", nargs="*")
options = parser.parse_args()

cuda = ctypes.CDLL("libcuda.so.1")
SPIN = """.visible .entry spin(.param .u64 flag) {
.reg .pred %p; .reg .b32 %r; .reg .b64 %a;
ld.param.u64 %a, [flag];
again: ld.volatile.global.u32 %r, [%a];
setp.eq.u32 %p, %r, 0;
@%p bra again;
ret; }
"""


def check(result):
    assert result == 0, result


def entry(thread, number):
    name = f"kernel_{thread}_{number}"
    return f"_Z{len(name)}{name}Pfi"


def loaded(kernels):
    entries = "".join(f".visible .entry {name}(.param .u64 x, .param .u32 n) {{ ret; }}\n" for name in kernels)
    library = ctypes.c_void_p()
    ptx = f".version 8.0\n.target sm_75\n.address_size 64\n{SPIN}{entries}".encode()
    check(cuda.cuLibraryLoadData(ctypes.byref(library), ptx, None, None, 0, None, None, 0))
    return library


def launch(library, name, stream, value):
    kernel = ctypes.c_void_p()
    check(cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, name.encode()))
    pointer = ctypes.cast(ctypes.pointer(value), ctypes.c_void_p)
    arguments = (ctypes.c_void_p * 2)(pointer, pointer)
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None))


def work(thread):
    check(cuda.cuCtxSetCurrent(context))
    stream = ctypes.c_void_p()
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    names = [entry(thread, number) for number in range(options.kernels)]
    library = loaded(names)
    for number, name in enumerate(names):
        if thread == 0 and number == options.kernels // 2:
            cuda.kernel_registry_audit_ready()
        launch(library, name, stream, ctypes.c_uint64())
    if thread == 0 and options.hang:
        hang(stream)
    check(cuda.cuStreamSynchronize(stream))


def hang(stream):
    """Loads a kernel of another library beside a kernel that spins for a second."""
    host = ctypes.c_void_p()
    check(cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(4), 2))
    flag = ctypes.c_uint32.from_address(host.value)
    flag.value = 0
    launch(loaded([]), "spin", stream, ctypes.c_uint64(host.value))
    end = threading.Timer(1, lambda: setattr(flag, "value", 1))
    end.start()
    kernel, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuLibraryGetKernel(ctypes.byref(kernel), loaded(["stuck"]), b"stuck"))
    check(cuda.cuKernelGetFunction(ctypes.byref(function), kernel))
    end.join()


context = ctypes.c_void_p()
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
time.sleep(options.after)
threads = [threading.Thread(target=work, args=(thread,)) for thread in range(options.threads)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
check(cuda.cuCtxSetCurrent(context))
for size in range(options.resizes):
    check(cuda.cuCtxSetLimit(0, 1024 + size % 2 * 1024))
if options.killed:
    os.kill(os.getpid(), signal.SIGKILL)
