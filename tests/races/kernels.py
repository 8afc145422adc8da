#!/usr/bin/env python3
"""Runs kernels of the interpreter's corpus of races by the driver API, on a GPU or on the simulated driver.

    tests/races/kernels.py KERNEL          runs one, and prints what it wrote
    tests/races/kernels.py --racecheck     compares the verdicts of compute-sanitizer's racecheck with the kernels' names. Needs a GPU
"""
import ctypes
import re
import subprocess
import sys
from pathlib import Path

PTX = Path(__file__).resolve().parents[2] / "kernel-registry-ptx/tests/corpus/prebuilt/cuda__races.cu.ptx"
# Wrong kernels for which racecheck reports no hazard: docs/measured.md says what races in them.
UNREPORTED = ["wrong_histogram_read_early", "wrong_scan", "wrong_named_barriers"]


def shape(kernel):
    """The blocks of a kernel's grid, and the threads of a block, as kernel-registry-ptx/tests/corpus/races.rs has them."""
    which, what = kernel.split("_", 1)
    if what == "three_blocks":
        return 3, 1
    if what == "flags_of_many_blocks":
        return 100, 1
    if what == "thread_that_left_after_a_fence":
        return 1, 64
    if kernel == "right_scope_of_the_block":
        return 1, 64
    if what in ["barrier_of_the_grid", "last_block"]:
        return 4, 64
    if what == "neighbours" or what.startswith(("leader", "fences_before")):
        return 2, 64
    if re.search("in_a_warp|shuffle|of_a_warp", what):
        return 1, 32
    if re.search("flag|lock|first|counter|ring|release|scope|fence", what):
        return 2, 1
    return 1, 64


def run(kernel):
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        code = getattr(cuda, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX.read_bytes() + b"\0")
    call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
    buffers = [ctypes.c_uint64() for _ in range(3)]
    for buffer in buffers:
        call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(4096))
        call("cuMemsetD8_v2", buffer, 0, ctypes.c_size_t(4096))
    numbers = (ctypes.c_uint32 * 512)(*(at % 9 for at in range(512)))
    call("cuMemcpyHtoD_v2", buffers[0], numbers, ctypes.c_size_t(2048))
    blocks, threads = shape(kernel)
    pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(buffer) for buffer in buffers))
    call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)
    call("cuCtxSynchronize")
    out = (ctypes.c_uint32 * 64)()
    call("cuMemcpyDtoH_v2", out, buffers[2], ctypes.c_size_t(256))
    print(*out)


def shared():
    """The names of the kernels whose races are in shared memory: those of the source's first part."""
    source = (PTX.parents[1] / "cuda/races.cu").read_text()
    return re.findall(r"KERNEL\((\w+)\)", source[: source.index("// Flags between two blocks")])[1:]


def racecheck():
    wrong = 0
    for kernel in shared():
        done = subprocess.run(["compute-sanitizer", "--tool", "racecheck", sys.executable, __file__, kernel], capture_output=True, text=True, timeout=120)
        found = re.search(r"RACECHECK SUMMARY: (\d+) hazards?", done.stdout)
        verdict = "none" if found is None else "race" if int(found[1]) else "no race"
        expected = "race" if kernel.startswith("wrong") and kernel not in UNREPORTED else "no race"
        wrong += verdict != expected
        print(f"{'ok    ' if verdict == expected else 'DIFFERS'} {kernel}: {verdict}", flush=True)
        if found is None:
            print(done.stdout[-500:], done.stderr[-500:])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(racecheck() if sys.argv[1:] == ["--racecheck"] else run(sys.argv[1]))
