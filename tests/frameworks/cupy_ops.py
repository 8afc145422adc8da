"""Runs operations of CuPy: a kernel that NVRTC compiles, an element-wise kernel, a sort and a matrix product."""
import cupy
import numpy

scale = cupy.RawKernel(
    'extern "C" __global__ void scale(float* x, float a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= a; }',
    "scale",
)
x = cupy.arange(1000, dtype=cupy.float32)
scale((8,), (128,), (x, cupy.float32(3), cupy.int32(1000)))
print("raw", numpy.array_equal(x.get(), 3 * numpy.arange(1000, dtype=numpy.float32)))
print("elementwise", numpy.allclose(cupy.sqrt(x).get(), numpy.sqrt(x.get())))
print("sort", numpy.array_equal(cupy.sort(x[::-1].copy()).get(), x.get()))
a = x.reshape(10, 100) / 1000
print("matmul", numpy.allclose((a @ a.T).get(), a.get() @ a.get().T, rtol=1e-3))
