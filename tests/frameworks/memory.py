"""Runs a program, and then writes how much device memory is used, as a line of JSON to standard error.

    memory.py PROGRAM [ARGUMENTS ..]
"""
import ctypes
import json
import runpy
import sys

sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        if cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0:
            cuda.cuCtxSetCurrent(context)
            cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
            print(json.dumps({"used_mib": (total.value - free.value) >> 20}), file=sys.stderr)
    except OSError:
        pass
