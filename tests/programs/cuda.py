"""Calls of the CUDA driver that the programs here share."""
import ctypes

IMAGE = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry {}() {{ ret; }}\n"


def driver():
    return ctypes.CDLL("libcuda.so.1")


def check(result):
    assert result == 0, f"the driver answers {result}"


def new(function, *arguments):
    handle = ctypes.c_void_p()
    check(function(ctypes.byref(handle), *arguments))
    return handle


def start():
    """Returns the driver, with the primary context of device 0 made current."""
    cuda = driver()
    check(cuda.cuInit(0))
    check(cuda.cuCtxSetCurrent(new(cuda.cuDevicePrimaryCtxRetain, 0)))
    return cuda


def run_new_kernel(cuda, name):
    """Loads an image with one kernel of this name, and launches the kernel once."""
    library = new(cuda.cuLibraryLoadData, IMAGE.format(name).encode(), None, None, 0, None, None, 0)
    kernel = new(cuda.cuLibraryGetKernel, library, name.encode())
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None))
    check(cuda.cuCtxSynchronize())
