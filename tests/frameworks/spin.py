"""A kernel that runs until the program tells it to end, or until its time is over. It needs a current context."""

import contextlib
import ctypes
import time

HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n"
SPIN = """.visible .entry spin(.param .u64 word, .param .u64 nanoseconds) {
.reg .pred %p; .reg .b32 %r; .reg .b64 %a, %now, %end;
ld.param.u64 %a, [word];
ld.param.u64 %end, [nanoseconds];
mov.u64 %now, %globaltimer;
add.u64 %end, %end, %now;
again: ld.volatile.global.u32 %r, [%a];
setp.ne.u32 %p, %r, 0;
@%p ret;
mov.u64 %now, %globaltimer;
setp.lt.u64 %p, %now, %end;
@%p bra again;
ret; }
"""
NOT_READY = 600
cuda = ctypes.CDLL("libcuda.so.1")


def check(result):
    assert result == 0, f"error {result} of the driver"


def new(function, *arguments):
    handle = ctypes.c_void_p()
    check(function(ctypes.byref(handle), *arguments))
    return handle


def context():
    """Makes the context of the first device current, for programs that use the driver alone."""
    check(cuda.cuInit(0))
    check(cuda.cuCtxSetCurrent(new(cuda.cuDevicePrimaryCtxRetain, 0)))


def kernel(text, name):
    """Loads the module with this text, and returns its kernel."""
    module = new(cuda.cuModuleLoadData, (HEAD + text).encode())
    return new(cuda.cuModuleGetFunction, module, name.encode())


def launch(function, stream, *values):
    """Launches one thread. All parameters are numbers of 64 bits."""
    values = [ctypes.c_uint64(value) for value in values]
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None))


def ready():
    """Says that the program is ready, if it is audited."""
    if hasattr(cuda, "kernel_registry_audit_ready"):
        cuda.kernel_registry_audit_ready()


@contextlib.contextmanager
def deferring(stream):
    """A section of the audit: calls that would wait for the kernel in this stream are deferred until it has ended."""
    begin, end = cuda.kernel_registry_audit_section_begin, cuda.kernel_registry_audit_section_end
    begin.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
    begin.restype, end.argtypes = ctypes.c_uint64, [ctypes.c_uint64]
    section = begin(b"spin", None, stream, 2)
    assert section, "standard error says why no section begins"
    yield
    while cuda.cuStreamQuery(ctypes.c_void_p(stream)) == NOT_READY:
        time.sleep(0.001)
    end(section)


class Spin:
    """The kernel, loaded. Memory and module stay, because the kernel may still use them."""

    def __init__(self, seconds=2.0):
        self.nanoseconds = int(seconds * 1e9)
        self.function = kernel(SPIN, "spin")
        self.word = new(cuda.cuMemHostAlloc, ctypes.c_size_t(4), 2)
        ctypes.c_uint32.from_address(self.word.value).value = 0

    def start(self, stream):
        self.stream = stream if isinstance(stream, ctypes.c_void_p) else ctypes.c_void_p(stream)
        launch(self.function, self.stream, self.word.value, self.nanoseconds)

    def tell(self):
        """Tells the kernel to end."""
        ctypes.c_uint32.from_address(self.word.value).value = 1

    def end(self):
        """Tells the kernel to end, and waits for it. Returns whether it was still running: then nothing has waited for its end."""
        ran = cuda.cuStreamQuery(self.stream) == NOT_READY
        self.tell()
        check(cuda.cuStreamSynchronize(self.stream))
        return ran
