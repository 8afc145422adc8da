"""Loads images one after the other with `cuModuleLoadData`, as candle, ggml and cudarc do, and prints a digest of their kernels' names.

    ptx_ops.py FOLDER [ENDING]

The time of all calls goes to standard error as a line of JSON.
"""
import ctypes
import hashlib
import json
import sys
import time
from pathlib import Path

cuda = ctypes.CDLL("libcuda.so.1")


def check(answer):
    assert answer == 0, answer


check(cuda.cuInit(0))
context = ctypes.c_void_p()
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
took = 0
ending = sys.argv[2] if len(sys.argv) > 2 else ".ptx"
for file in sorted(Path(sys.argv[1]).glob(f"*{ending}")):
    # PTX is text that ends with a zero.
    image = ctypes.create_string_buffer(file.read_bytes())
    module, count = ctypes.c_void_p(), ctypes.c_uint()
    begun = time.perf_counter()
    check(cuda.cuModuleLoadData(ctypes.byref(module), image))
    took += time.perf_counter() - begun
    check(cuda.cuModuleGetFunctionCount(ctypes.byref(count), module))
    functions = (ctypes.c_void_p * count.value)()
    check(cuda.cuModuleEnumerateFunctions(functions, count, module))
    names = []
    for function in functions:
        name = ctypes.c_char_p()
        check(cuda.cuFuncGetName(ctypes.byref(name), ctypes.c_void_p(function)))
        names.append(name.value)
    print(file.stem, count.value, hashlib.sha256(b"\n".join(sorted(names))).hexdigest())
print(json.dumps({"loads_ms": round(1000 * took, 2)}), file=sys.stderr)
