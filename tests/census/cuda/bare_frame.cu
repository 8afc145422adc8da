// A kernel with a frame that fits the stack that a context begins with, alone in its image.

#include "frame.cuh"

__global__ void bare_frame_800(volatile unsigned int* done, unsigned int n) { use_frame<200>(done, n); }
