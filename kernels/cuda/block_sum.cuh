// The sum of one value per thread over a block.
//
// Shared by the kernels that reduce, and kept in a header so that the build has a
// header to notice when it changes.

#pragma once

constexpr unsigned int WARP = 32;
constexpr unsigned int MAX_WARPS = 1024 / WARP;

// Halves the distance at each step, so every lane ends with the sum of its own and
// all higher lanes; lane 0 has the whole.
template <typename T>
__device__ T warp_sum(T value) {
    for (unsigned int distance = WARP / 2; distance > 0; distance /= 2) {
        value += __shfl_down_sync(0xffffffffu, value, distance);
    }
    return value;
}

// The sum is meant for thread 0; the other threads receive something meaningless.
// All threads of the block must call it, and the block must be whole warps, because
// the shuffle waits for lanes that a partial warp does not have.
template <typename T>
__device__ T block_sum(T value) {
    __shared__ T partial[MAX_WARPS];
    const unsigned int lane = threadIdx.x % WARP;
    const unsigned int warp = threadIdx.x / WARP;

    value = warp_sum(value);
    if (lane == 0) partial[warp] = value;
    __syncthreads();

    if (warp == 0) value = warp_sum(lane < blockDim.x / WARP ? partial[lane] : T(0));
    // A second call must not overwrite what the first warp is still reading.
    __syncthreads();
    return value;
}
