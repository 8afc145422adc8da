"""Compiles one program eight times with NVRTC, as cuDNN does, and prints a digest of what it got each time and the time of each compilation.

    nvrtc_ops.py [LIBRARY]
"""
import ctypes
import glob
import hashlib
import sys
import time

found = sys.argv[1:] or sorted(
    path for root in sys.path for path in glob.glob(f"{root}/nvidia/**/libnvrtc.so.*", recursive=True) if ".alt." not in path
)
# Some versions do not find their builtins by themselves.
for builtins in glob.glob(glob.escape(found[-1].rsplit("/", 1)[0]) + "/libnvrtc-builtins.so.*"):
    ctypes.CDLL(builtins)
nvrtc = ctypes.CDLL(found[-1])
KERNEL = """
template <class T, int WIDTH> __global__ void normalize%d(T *out, const T *in, int rows) {
    __shared__ float sums[WIDTH];
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        float sum = 0;
        for (int column = threadIdx.x; column < %d; column += WIDTH) sum += expf(float(in[row * %d + column]));
        sums[threadIdx.x] = sum;
        for (int step = WIDTH / 2; step > 0; step /= 2) {
            __syncthreads();
            if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
        }
        __syncthreads();
        for (int column = threadIdx.x; column < %d; column += WIDTH) out[row * %d + column] = T(in[row * %d + column] / sums[0]);
    }
}
"""
TEXT = "".join(KERNEL % ((size,) * 6) for size in range(64, 192, 64)).encode()
NAMES = [f"normalize{size}<float, 128>".encode() for size in range(64, 192, 64)]


def check(answer):
    assert answer == 0, answer


digests, times = [], []
for _ in range(8):
    program, size, lowered = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_char_p()
    options = (ctypes.c_char_p * 2)(b"-arch=sm_90", b"-std=c++17")
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), TEXT, b"normalize.cu", 0, None, None))
    for name in NAMES:
        check(nvrtc.nvrtcAddNameExpression(program, name))
    begun = time.perf_counter()
    check(nvrtc.nvrtcCompileProgram(program, 2, options))
    times.append(round(1000 * (time.perf_counter() - begun), 1))
    digest = hashlib.sha256()
    for kind in ["PTX", "CUBIN", "ProgramLog"]:
        check(nvrtc[f"nvrtcGet{kind}Size"](program, ctypes.byref(size)))
        content = ctypes.create_string_buffer(size.value)
        check(nvrtc[f"nvrtcGet{kind}"](program, content))
        digest.update(content.raw)
    for name in NAMES:
        check(nvrtc.nvrtcGetLoweredName(program, name, ctypes.byref(lowered)))
        digest.update(lowered.value)
    digests.append(digest.hexdigest()[:16])
    check(nvrtc.nvrtcDestroyProgram(ctypes.byref(program)))
print(digests)
print("times", times, file=sys.stderr)
