// Sixteen-bit floating point: a parameter that is a class on the device and two
// bytes on the host.

#include <cuda_fp16.h>

// y = a * x + y, rounded once per element.
__global__ void haxpy(unsigned int n, __half a, const __half* __restrict__ x,
                      __half* __restrict__ y) {
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hfma(a, x[i], y[i]);
}
