// Kernels of one image, most of which need more of the driver than to be loaded.

#include "frame.cuh"

__global__ void small(volatile unsigned int* done, unsigned int n) { tell(done); }

__global__ void sibling(volatile unsigned int* done, unsigned int n) { tell(done); }

__global__ void frame_800(volatile unsigned int* done, unsigned int n) { use_frame<200>(done, n); }

__global__ void frame_2k(volatile unsigned int* done, unsigned int n) { use_frame<512>(done, n); }

__global__ void frame_32k(volatile unsigned int* done, unsigned int n) { use_frame<8192>(done, n); }

__global__ void prints(volatile unsigned int* done, unsigned int n) {
    printf("printed by a kernel\n");
    tell(done);
}

__global__ void allocates(volatile unsigned int* done, unsigned int n) {
    volatile unsigned int* memory = (unsigned int*)malloc(64);
    if (memory != nullptr) {
        *memory = n;
        free((void*)memory);
    }
    tell(done);
}

// As much shared memory as the launch says, of which it uses a word for each thread.
__global__ void shared_dynamic(volatile unsigned int* done, unsigned int n) {
    extern __shared__ unsigned int words[];
    words[threadIdx.x] = n;
    __syncthreads();
    if (words[(threadIdx.x + 1) % blockDim.x] == n) tell(done);
}

__global__ void shared_static(volatile unsigned int* done, unsigned int n) {
    __shared__ unsigned int words[11000];
    words[threadIdx.x * n % 11000] = n;
    __syncthreads();
    if (words[0] == n) tell(done);
}
