"""A model of one kernel on the driver alone, for the simulated driver. The kernel is loaded by its first launch."""
import ctypes

from spin import HEAD, check, cuda, new

SEVEN = """.visible .entry seven(.param .u64 place) {
.reg .b64 %place;
ld.param.u64 %place, [place];
st.global.u32 [%place], 7;
ret; }
"""
handles = {}


def load():
    check(cuda.cuInit(0))
    handles["context"] = new(cuda.cuDevicePrimaryCtxRetain, 0)
    check(cuda.cuCtxSetCurrent(handles["context"]))
    handles["library"] = new(cuda.cuLibraryLoadData, (HEAD + SEVEN).encode(), None, None, 0, None, None, 0)


def infer():
    # Requests are served by threads that have no current context.
    check(cuda.cuCtxSetCurrent(handles["context"]))
    place = new(cuda.cuMemHostAlloc, ctypes.c_size_t(4), 2)
    kernel = new(cuda.cuLibraryGetKernel, handles["library"], b"seven")
    argument = ctypes.c_uint64(place.value)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, arguments, None))
    check(cuda.cuStreamSynchronize(None))
    output = ctypes.c_uint32.from_address(place.value).value
    check(cuda.cuMemFreeHost(place))
    return [float(output)]
