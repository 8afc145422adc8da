// Kernels that use what few kernels use.

// NVRTC brings its own `assert` and finds no host headers.
#ifndef __CUDACC_RTC__
#include <cassert>
#endif
#include "done.cuh"

__global__ void asserts(volatile unsigned int* done, unsigned int n) {
    assert(n == 100);
    tell(done);
}

__device__ __noinline__ unsigned int recursion(unsigned int depth, unsigned int* words) {
    if (depth == 0) return words[0];
    unsigned int own[4];
    own[depth & 3] = words[1];
    return recursion(depth - 1, words) + own[depth & 3];
}

__global__ void recurses(volatile unsigned int* done, unsigned int n) {
    unsigned int words[2] = {n, n};
    // Never true, which the compiler cannot know.
    if (recursion(n > 1000 ? 5 : 2, words) == 0xffffffffu) *done = 2;
    tell(done);
}

typedef unsigned int (*Function)(unsigned int);

__device__ __noinline__ unsigned int next(unsigned int x) { return x + 1; }

__device__ __noinline__ unsigned int twice(unsigned int x) { return x * 2; }

__device__ Function functions[2] = {next, twice};

__global__ void calls_pointer(volatile unsigned int* done, unsigned int n) {
    if (functions[n & 1](n) == 0xffffffffu) *done = 2;
    tell(done);
}
