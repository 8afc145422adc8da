// A program that links NVIDIA's runtime library statically, as nvcc does by default. It has three kernels, one of which is never launched.
#include <cstdio>

__global__ void fill(int *out, int value) { out[threadIdx.x] = value; }
__global__ void add(int *out, int value) { out[threadIdx.x] += value; }
__global__ void never(int *out) { out[0] = 0; }

int main(int count, char **) {
    int *out, host[32];
    if (cudaMalloc(&out, sizeof host) != cudaSuccess) return 1;
    fill<<<1, 32>>>(out, 40);
    add<<<1, 32>>>(out, 2);
    add<<<1, 32>>>(out, 0);
    if (count > 5) never<<<1, 1>>>(out);
    if (cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    printf("cudart %s\n", host[31] == 42 ? "True" : "False");
    return host[31] != 42;
}
