"""Two processes that work together, on one device. Rank 1 launches `late` for the first time while its kernel `persistent` is resident.
`persistent` ends when rank 0 is done, and rank 0 waits in `all_reduce` for rank 1. So both hang, unless `late` was loaded before. The
argument is the number of seconds after which kernels end by themselves, 3 by default."""

import ctypes
import mmap
import os
import sys
import threading
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
# A kernel that runs until a word is not 0, or until the kernel's time is over.
WAIT = """.visible .entry %s(.param .u64 word, .param .u64 nanoseconds) {
.reg .pred %%p; .reg .b32 %%r; .reg .b64 %%a, %%now, %%end;
ld.param.u64 %%a, [word];
ld.param.u64 %%end, [nanoseconds];
mov.u64 %%now, %%globaltimer;
add.u64 %%end, %%end, %%now;
again: ld.volatile.global.u32 %%r, [%%a];
setp.ne.u32 %%p, %%r, 0;
@%%p ret;
mov.u64 %%now, %%globaltimer;
setp.lt.u64 %%p, %%now, %%end;
@%%p bra again;
ret; }
"""
HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n"
LATE = ".visible .entry late(.param .u64 word, .param .u64 nanoseconds) { ret; }\n"
# The events that the ranks tell each other in shared memory.
ARRIVED, DONE = 0, 1
shared = mmap.mmap(-1, mmap.PAGESIZE)

children = []
for number in range(2):
    child = os.fork()
    if child == 0:
        rank = number
        break
    children.append(child)
else:
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))

os.environ["RANK"] = str(rank)
cuda = ctypes.CDLL("libcuda.so.1")


def check(result):
    assert result == 0, result


def new(function, *arguments):
    handle = ctypes.c_void_p()
    check(function(ctypes.byref(handle), *arguments))
    return handle


check(cuda.cuInit(0))
check(cuda.cuCtxSetCurrent(new(cuda.cuDevicePrimaryCtxRetain, 0)))
images = HEAD + WAIT % "all_reduce" + WAIT % "persistent", HEAD + LATE
waiting, other = (new(cuda.cuLibraryLoadData, image.encode(), None, None, 0, None, None, 0) for image in images)
word = new(cuda.cuMemHostAlloc, ctypes.c_size_t(4), 2)
ctypes.c_uint32.from_address(word.value).value = 0


def launch(library, name, stream):
    kernel = new(cuda.cuLibraryGetKernel, library, name)
    values = ctypes.c_uint64(word.value), ctypes.c_uint64(int(SECONDS * 1e9))
    arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None))


def pass_on(event):
    """Waits until the other rank has reached an event, and tells the kernel."""
    while not shared[event]:
        time.sleep(0.001)
    ctypes.c_uint32.from_address(word.value).value = 1


streams = [new(cuda.cuStreamCreate, 1), new(cuda.cuStreamCreate, 1)]
threading.Thread(target=pass_on, args=(ARRIVED if rank == 0 else DONE,), daemon=True).start()
if hasattr(cuda, "kernel_registry_audit_ready"):
    cuda.kernel_registry_audit_ready()
begun = time.monotonic()
if rank == 0:
    launch(waiting, b"all_reduce", streams[0])
    check(cuda.cuStreamSynchronize(streams[0]))
    shared[DONE] = 1
else:
    launch(waiting, b"persistent", streams[0])
    launch(other, b"late", streams[1])
    shared[ARRIVED] = 1
    for stream in streams:
        check(cuda.cuStreamSynchronize(stream))
hung = time.monotonic() - begun > 0.9 * SECONDS
print(f"rank {rank} {'gave up' if hung else 'done'}", flush=True)
sys.exit(3 if hung else 0)
