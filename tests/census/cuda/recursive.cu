// Kernels that call a function which calls itself, so that no compiler knows how much stack they need.

#include "done.cuh"

// A frame of SIZE words for each call.
template <unsigned int SIZE>
__device__ __noinline__ unsigned int descend(unsigned int depth, unsigned int n) {
    unsigned int frame[SIZE];
    for (unsigned int i = 0; i < n; ++i) frame[i * 7 % SIZE] = i;
    unsigned int below = depth == 0 ? 0 : descend<SIZE>(depth - 1, n);
    for (unsigned int i = 0; i < n; ++i) below += frame[i * 13 % SIZE];
    return below;
}

template <unsigned int SIZE>
__device__ void recurse(unsigned int depth, volatile unsigned int* done, unsigned int n) {
    // Never true, which the compiler cannot know.
    if (descend<SIZE>(n > 1000 ? n : depth, n) == 0xffffffffu) *done = 2;
    tell(done);
}

// The kernel itself has the frame, and could call a recursive function with a small one. The driver counts the kernel's
// frame; of a recursive function's frames it counts none, so that a kernel that needs them overflows its stack.
template <unsigned int SIZE>
__device__ void could_recurse(volatile unsigned int* done, unsigned int n) {
    unsigned int frame[SIZE];
    for (unsigned int i = 0; i < n; ++i) frame[i * 7 % SIZE] = i;
    unsigned int sum = 0;
    for (unsigned int i = 0; i < n; ++i) sum += frame[i * 13 % SIZE];
    if (n > 1000) sum += descend<4>(n, n);
    if (sum == 0xffffffffu) *done = 2;
    tell(done);
}

__global__ void recurses_800(volatile unsigned int* done, unsigned int n) { could_recurse<190>(done, n); }

__global__ void recurses_1600(volatile unsigned int* done, unsigned int n) { could_recurse<400>(done, n); }

__global__ void recurses_8k(volatile unsigned int* done, unsigned int n) { could_recurse<2048>(done, n); }

// Five frames of 4 KiB.
__global__ void recurses_deep(volatile unsigned int* done, unsigned int n) { recurse<1024>(4, done, n); }
