"""Compiles the kernels of `kernels.py` for sm_80 into `ptx/`, ahead of time: no GPU is needed.

    python -m pip install triton==3.9.0
    python make.py            writes them
    python make.py --check    fails if they differ from those that are there
"""

import json
import os
import sys
import tempfile
from pathlib import Path

# Without the paths of this machine, and with fused multiply and add whatever the default is.
os.environ.update(TRITON_DISABLE_LINE_INFO="1", TRITON_DEFAULT_FP_FUSION="1")
CACHE = tempfile.TemporaryDirectory()
os.environ["TRITON_CACHE_DIR"] = CACHE.name
sys.dont_write_bytecode = True

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import kernels

VERSION = "3.9.0"
FOLDER = Path(__file__).parent / "ptx"

BLOCK = {"BLOCK": 256}
TILES = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}

# The kernel, its parameters in order, its constants, and the number of warps. Numbers with `:16` are multiples of 16, as addresses
# are: then Triton copies 16 bytes at once.
KERNELS = {
    "add": (kernels.add, "x:*fp32 y:*fp32 out:*fp32 n:i32", BLOCK, 4),
    "softmax": (kernels.softmax, "x:*fp32 out:*fp32 columns:i32", BLOCK, 4),
    "layer_norm": (kernels.layer_norm, "x:*fp32 weight:*fp32 bias:*fp32 out:*fp32 columns:i32 epsilon:fp32", BLOCK, 4),
    "reduce": (kernels.reduce, "x:*i32 sum:*fp32 largest:*i32 n:i32", BLOCK, 4),
    "argmax": (kernels.argmax, "x:*fp32 out:*i32 columns:i32", BLOCK, 4),
    "scan": (kernels.scan, "x:*fp32 sums:*fp32 largest:*fp32 n:i32", BLOCK, 4),
    "sort": (kernels.sort, "x:*fp32 out:*fp32", {"BLOCK": 64}, 1),
    "philox": (kernels.philox, "seed:i32 numbers:*i32 uniform:*fp32 n:i32", BLOCK, 4),
    "histogram": (kernels.histogram, "x:*i32 bins:*i32 n:i32", {**BLOCK, "BINS": 64}, 4),
    "math": (kernels.math, "x:*fp32 out:*fp32 n:i32", BLOCK, 4),
    "fp8": (kernels.fp8, "x:*fp32 given:*fp8e5 codes:*fp8e5 out:*fp32 n:i32", BLOCK, 4),
    "dot_f16": (kernels.dot, "a:*fp16 b:*fp16 c:*fp32 m:i32 n:i32:16 k:i32:16", TILES, 4),
    "dot_bf16": (kernels.dot, "a:*bf16 b:*bf16 c:*fp32 m:i32 n:i32:16 k:i32:16", TILES, 4),
    "dot_tf32": (kernels.dot, "a:*fp32 b:*fp32 c:*fp32 m:i32 n:i32:16 k:i32:16", TILES, 4),
    "attention": (
        kernels.attention,
        "q:*fp16 k:*fp16 v:*fp16 out:*fp16 n:i32 scale:fp32",
        {"BLOCK_M": 32, "BLOCK_N": 32, "WIDTH": 32},
        4,
    ),
}


def compile(function, parameters, constants, warps):
    """The PTX of a kernel, and what a launch has to know."""
    declared = parameters.split()
    types = dict(parameter.removesuffix(":16").split(":") for parameter in declared)
    multiples = [place for place, parameter in enumerate(declared) if "*" in parameter or parameter.endswith(":16")]
    aligned = {(place,): [["tt.divisibility", 16]] for place in multiples}
    signature = types | {name: "constexpr" for name in constants}
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=aligned)
    made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": warps})
    scratch = made.metadata.global_scratch_size + made.metadata.profile_scratch_size
    assert scratch == 0, "the two last parameters, of memory to use, are null in the test"
    launch = {"entry": made.metadata.name, "threads": 32 * warps, "shared": made.metadata.shared}
    return made.asm["ptx"], launch


def main():
    if triton.__version__ != VERSION:
        sys.exit(f"this is Triton {triton.__version__}: install {VERSION}, of which the committed PTX is")
    made = {name: compile(*kernel) for name, kernel in KERNELS.items()}
    files = {f"{name}.ptx": ptx for name, (ptx, _) in made.items()}
    files["launches.json"] = json.dumps({name: launch for name, (_, launch) in made.items()}, indent=2) + "\n"
    if "--check" in sys.argv:
        there = {path.name: path.read_text() for path in FOLDER.iterdir()}
        differ = [name for name in sorted(files.keys() | there.keys()) if files.get(name) != there.get(name)]
        sys.exit(f"run make.py: {', '.join(differ)} differ" if differ else 0)
    for path in FOLDER.iterdir():
        path.unlink()
    for name, text in files.items():
        (FOLDER / name).write_text(text)


main()
