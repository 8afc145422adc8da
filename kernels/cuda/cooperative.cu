// A grid whose blocks wait for each other, which only a cooperative launch promises
// to have on the device all at once.

#include <kernel_registry.cuh>

enum Status : unsigned int { RUNNING = 0, FINISHED = 1, GAVE_UP = 2 };

// Waits until `target` arrivals were counted, one per block and round; false once
// the deadline has passed or another block has given up. All threads of a block get
// the same answer.
//
// The fences are thread 0's alone: with the block's barrier next to each of them,
// they order the accesses of all its threads.
static __device__ bool grid_barrier(unsigned int* arrivals, unsigned int target,
                                    const volatile unsigned int* status,
                                    const kernel_registry::Deadline& deadline) {
    bool arrived = true;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrivals, 1u);
        const volatile unsigned int* counted = arrivals;
        while (arrived && *counted < target) arrived = *status != GAVE_UP && !deadline.passed();
        __threadfence();
    }
    return __syncthreads_and(arrived);
}

// Replaces each inner element by the mean of its neighbours, `sweeps` times, moving
// between `a` and `b`: the result is in `a` after an even number of sweeps. The ends
// stay as they are, and must be equal in `a` and `b`.
//
// The caller zeroes `arrivals` and `status`; gridDim.x * sweeps must fit 32 bits. An
// ordinary launch with more blocks than fit the device at once ends as GAVE_UP after
// `limit_ns`, with `a` and `b` in disorder.
__global__ void smooth(unsigned int n, unsigned int sweeps, float* a, float* b,
                       unsigned int* arrivals, unsigned int* status,
                       unsigned long long limit_ns) {
    const kernel_registry::Deadline deadline(limit_ns);
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;

    for (unsigned int sweep = 0; sweep < sweeps; ++sweep) {
        const float* from = sweep % 2 == 0 ? a : b;
        float* to = sweep % 2 == 0 ? b : a;
        for (unsigned long long i = first + 1; i + 1 < n; i += stride) {
            to[i] = 0.5f * (from[i - 1] + from[i + 1]);
        }

        if (!grid_barrier(arrivals, (sweep + 1) * gridDim.x, status, deadline)) {
            if (threadIdx.x == 0) atomicMax(status, GAVE_UP);
            return;
        }
    }
    // One block may give up at the last barrier while another passes it; the larger
    // status, which is the failure, must win.
    if (threadIdx.x == 0) atomicMax(status, FINISHED);
}
