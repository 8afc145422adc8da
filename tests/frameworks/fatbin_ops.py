"""A program of nvcc with 300 kernels of PTX alone, as on a GPU that's newer than the program. It launches ten. `fatbin_ops.py sm_90 2000 60 2` has machine
code instead, of 2,000 small kernels of which it launches 60. Needs nvcc."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

arch, *numbers = sys.argv[1:] or ["compute_80"]
count, used, terms = map(int, numbers or (300, 10, 12))
built = Path(tempfile.gettempdir()) / f"fatbin-ops-{os.getuid()}-{arch}-{count}-{used}-{terms}"
if not built.exists():
    lines = ["#include <chrono>\n#include <cstdio>"]
    for kernel in range(count):
        body = "".join(f"x = sinf(x * {kernel + term}.5f) + powf(x, {term}.25f);" for term in range(terms))
        lines.append(f"__global__ void k{kernel}(float *out) {{ float x = out[threadIdx.x]; {body} out[threadIdx.x] = x; }}")
    launches = "".join(f"k{kernel}<<<1, 32>>>(out);" for kernel in range(0, count // used * used, count // used))
    lines.append(
        "int main() { float *out, sum[32]; cudaMalloc(&out, 128); cudaMemset(out, 1, 128); auto begun = std::chrono::steady_clock::now();"
        + launches
        + "cudaDeviceSynchronize(); std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;"
        "cudaError_t last = cudaMemcpy(sum, out, 128, cudaMemcpyDeviceToHost); printf(\"%d %a\\n\", last, sum[7]);"
        "fprintf(stderr, \"{\\\"requests_ms\\\": [%.0f]}\\n\", took.count()); }"
    )
    source = built.with_suffix(".cu")
    source.write_text("\n".join(lines))
    subprocess.run(["nvcc", f"-arch={arch}", "-o", built, source], check=True)
os.execv(built, [built])
