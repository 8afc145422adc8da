// Variables in ELF sections of NVIDIA's own types. Without `-rdc=true` the first two are in sections of ELF's types.

__device__ float unset[4096];
__device__ float set[4096] = {1};

__global__ void tile(float* x, unsigned n) {
    __shared__ float values[8192];
    values[threadIdx.x] = unset[n] + set[n];
    __syncthreads();
    x[n] = values[31 - threadIdx.x];
}
