"""Compiles with NVRTC in worker processes or greenlets: `WAY=forkserver servers.py NVRTC`."""
import ctypes
import hashlib
import multiprocessing
import os
import sys


def compile(number):
    nvrtc = ctypes.CDLL(sys.argv[1])
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = b'extern "C" __global__ void k(int *out) { *out = %d; }' % (number % 2)
    options = (ctypes.c_char_p * 1)(b"-arch=sm_80")
    answers = [
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, None, 0, None, None),
        nvrtc.nvrtcCompileProgram(program, 1, options),
        nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)),
    ]
    ptx = ctypes.create_string_buffer(size.value)
    answers.append(nvrtc.nvrtcGetPTX(program, ptx))
    return answers, hashlib.sha256(ptx.raw).hexdigest()[:8]


def main():
    way = os.environ["WAY"]
    if way == "gevent":
        import gevent.monkey

        gevent.monkey.patch_all()
        results = [greenlet.get() for greenlet in [gevent.spawn(compile, number) for number in range(4)]]
    else:
        if way == "fork":
            # The children have what their parent was given.
            print(compile(0))
        with multiprocessing.get_context(way).Pool(2) as pool:
            results = pool.map(compile, range(4))
    print(results)


if __name__ == "__main__":
    main()
