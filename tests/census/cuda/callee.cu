// Kernels whose stack is not in their own frame, and one with as many parameters as a kernel of old could have.

#include "done.cuh"

enum : unsigned int { SIZE = 512 };

__device__ __noinline__ unsigned int sum(unsigned int n) {
    unsigned int frame[SIZE];
    for (unsigned int i = 0; i < n; ++i) frame[i * 7 % SIZE] = i;
    unsigned int sum = 0;
    for (unsigned int i = 0; i < n; ++i) sum += frame[i * 13 % SIZE];
    return sum;
}

__device__ __noinline__ unsigned int itself(unsigned int n) { return n; }

// The comparisons are never true, which the compiler cannot know.
__global__ void frame_in_callee(volatile unsigned int* done, unsigned int n) {
    if (sum(n) == 0xffffffffu) *done = 2;
    tell(done);
}

typedef unsigned int (*Function)(unsigned int);

__device__ Function functions[2] = {sum, itself};

__global__ void frame_behind_pointer(volatile unsigned int* done, unsigned int n) {
    if (functions[n & 1](n) == 0xffffffffu) *done = 2;
    tell(done);
}

struct Words {
    unsigned int words[900];
};

__global__ void large_parameters(volatile unsigned int* done, unsigned int n, Words rest) {
    if (rest.words[n] == 0xffffffffu) *done = 2;
    tell(done);
}
