// Two blocks as a cluster, one reading the other's shared memory. Needs sm_90.
// kernel-registry: arch=sm_90 ptx=compute_90
//
// There is no guard on __CUDA_ARCH__, on purpose: below sm_90 an error while compiling
// is better than an image without the kernel, and PTX for an older target would lack
// it on newer devices too.

#include "block_sum.cuh"

// Writes one sum per pair of blocks. Blocks are whole warps, and the grid is a
// multiple of two blocks.
__global__ void __cluster_dims__(2, 1, 1) pair_sum(unsigned int n, const float* x, float* out) {
    __shared__ float mine;

    float sum = 0;
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = first; i < n; i += stride) {
        sum += x[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) mine = sum;

    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    if (__clusterRelativeBlockRank() == 0 && threadIdx.x == 0) {
        const float* theirs = (const float*)__cluster_map_shared_rank(&mine, 1);
        out[blockIdx.x / 2] = mine + *theirs;
    }
    // The partner's shared memory goes away with it, so it stays until it was read.
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
}
