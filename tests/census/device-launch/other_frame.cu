// A kernel that launches one without a frame, beside a kernel with a frame of 12 KiB that neither launches.

#include "../cuda/frame.cuh"

__global__ void other_frame_12k(volatile unsigned int* done, unsigned int n) { use_frame<3072>(done, n); }

__global__ void child_beside_frame(volatile unsigned int* done) { tell(done); }

// Never launched, which the compiler cannot know.
__global__ void launches_beside_frame(volatile unsigned int* done, unsigned int n) {
    if (n > 1000) child_beside_frame<<<1, 1>>>(done);
    tell(done);
}
