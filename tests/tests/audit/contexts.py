"""Loads, launches and unloads the same images in eight threads, half of which have contexts of their own. A forked child does so before."""

import ctypes
import os
import threading

cuda = ctypes.CDLL("libcuda.so.1")
errors = []


def image(number):
    kernels = b"".join(b".visible .entry k%d_%d() { ret; }\n" % (number, at) for at in range(4))
    return b".version 8.0\n.target sm_75\n.address_size 64\n" + kernels


def call(function, *arguments):
    result = getattr(cuda, function)(*arguments)
    assert result == 0, f"{function}: {result}"


def launch(kernel):
    call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)


def made(function, *arguments):
    handle = ctypes.c_void_p()
    call(function, ctypes.byref(handle), *arguments)
    return handle


def load_and_launch(number, unloads):
    source = image(number)
    library = made("cuLibraryLoadData", source, None, None, 0, None, None, 0)
    launch(made("cuLibraryGetKernel", library, b"k%d_1" % number))
    module = made("cuModuleLoadData", source)
    launch(made("cuModuleGetFunction", module, b"k%d_2" % number))
    call("cuCtxSynchronize")
    if unloads:
        call("cuModuleUnload", module)
        call("cuLibraryUnload", library)


def work(thread):
    shares = thread % 2 == 1
    context = made("cuDevicePrimaryCtxRetain", 0) if shares else made("cuCtxCreate_v2", 0, 0)
    if shares:
        call("cuCtxSetCurrent", context)
    if thread == 1:
        cuda.kernel_registry_audit_ready()
    for turn in range(5):
        for number in range(3):
            load_and_launch(number, unloads=turn % 2 == 1)
    if not shares:
        call("cuCtxDestroy_v2", context)


def run(thread):
    try:
        work(thread)
    except BaseException as error:
        errors.append((thread, error))


if os.fork() == 0:
    call("cuInit", 0)
    work(3)
    os._exit(0)
assert os.wait()[1] == 0
call("cuInit", 0)
threads = [threading.Thread(target=run, args=(thread,)) for thread in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not errors, errors
print("done")
