// Blocks in clusters, which need sm_90.
// kernel-registry: arch=sm_90 ptx=compute_90

#include "done.cuh"

static __device__ void meet() {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
}

__global__ void __cluster_dims__(2, 1, 1) clustered(volatile unsigned int* done, unsigned int n) {
    meet();
    tell(done);
}

// The launch says how large the clusters are.
__global__ void cluster_at_launch(volatile unsigned int* done, unsigned int n) {
    meet();
    tell(done);
}
