// A local frame of as many words.

#pragma once

#include "done.cuh"

// The indices are only known at run time, so that the array cannot live in registers: it is the frame.
template <unsigned int SIZE>
__device__ void use_frame(volatile unsigned int* done, unsigned int n) {
    unsigned int frame[SIZE];
    for (unsigned int i = 0; i < n; ++i) frame[i * 7 % SIZE] = i;
    unsigned int sum = 0;
    for (unsigned int i = 0; i < n; ++i) sum += frame[i * 13 % SIZE];
    // Never true, which the compiler cannot know.
    if (sum == 0xffffffffu) *done = 2;
    tell(done);
}
