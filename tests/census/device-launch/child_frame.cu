// A kernel that launches another, which has a frame of 8 KiB.

#include "../cuda/frame.cuh"

__global__ void child_frame_8k(volatile unsigned int* done, unsigned int n) { use_frame<2048>(done, n); }

// Never launched, which the compiler cannot know.
__global__ void launches_frame_8k(volatile unsigned int* done, unsigned int n) {
    if (n > 1000) child_frame_8k<<<1, 1>>>(done, n);
    tell(done);
}
