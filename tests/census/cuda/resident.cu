// The kernel that stays while an operation is tried.

enum Status : unsigned int { ABSENT = 0, PRESENT = 1, RELEASED = 2, GAVE_UP = 3 };

static __device__ unsigned long long now() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

// Stays until `flag` is set or `limit_ns` have passed, and says in `status` which it was. Any grid will do: one thread
// a block polls, the others hold their place, and the first block to know ends the whole grid.
__global__ void stay(const volatile unsigned int* flag, volatile unsigned int* status,
                     unsigned long long limit_ns) {
    if (threadIdx.x == 0) {
        const unsigned long long start = now();
        if (*status == ABSENT) *status = PRESENT;
        while (*status == PRESENT) {
            if (*flag != 0) {
                *status = RELEASED;
            } else if (now() - start >= limit_ns) {
                *status = GAVE_UP;
            }
        }
        __threadfence_system();
    }
    __syncthreads();
}
