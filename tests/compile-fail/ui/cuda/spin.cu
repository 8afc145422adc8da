// Kernels to tell stories about waiting with: one that stays until it is released,
// one that releases it, and one that has to get past it.

#include "deadline.cuh"

enum Status : unsigned int { SPINNING = 0, RELEASED = 1, GAVE_UP = 2 };

// Stays until `flag` is not zero, or until `limit_ns` have passed, and says in
// `status` which it was; the caller sets it to SPINNING. Both may be mapped host memory.
//
// Any grid will do, so that it can hold as much of the device as the story wants. One
// thread a block polls, lest a full grid clog the bus; the others hold their place at
// the barrier just as well. The first block to know ends the whole grid: blocks that
// had to wait for a place must not begin a wait of their own.
__global__ void spin_until_flag(const volatile unsigned int* flag, volatile unsigned int* status,
                                unsigned long long limit_ns) {
    if (threadIdx.x == 0) {
        const Deadline deadline(limit_ns);
        while (*status == SPINNING) {
            if (*flag != 0) {
                *status = RELEASED;
            } else if (deadline.passed()) {
                *status = GAVE_UP;
            }
        }
    }
    __syncthreads();
}

// Sets a flag from the device, after everything this thread wrote earlier. For one thread.
__global__ void set_flag(unsigned int* flag, unsigned int value) {
    __threadfence_system();
    *(volatile unsigned int*)flag = value;
}

// Counts one more: the smallest sign that a launch took place. For one thread.
__global__ void touch(unsigned int* out) { *out += 1; }
