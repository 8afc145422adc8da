// A kernel that launches another, neither of which has a frame.

#include "../cuda/done.cuh"

__global__ void child_small(volatile unsigned int* done) { tell(done); }

// Never launched, which the compiler cannot know.
__global__ void launches_small(volatile unsigned int* done, unsigned int n) {
    if (n > 1000) child_small<<<1, 1>>>(done);
    tell(done);
}
