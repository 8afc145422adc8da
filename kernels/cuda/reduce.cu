// A sum as a C++ template: the element type and the block size are its parameters.

#include "block_sum.cuh"

// Writes one sum per block, so the result is the same in every run: launch it again
// over `out`, with one block, for the total.
//
// The launch bound makes BLOCK part of the image (`.maxntid`), where a declaration
// that launches it with more threads can be checked against it.
template <typename T, unsigned BLOCK>
__global__ void __launch_bounds__(BLOCK) reduce(const T* x, T* out, unsigned n) {
    static_assert(BLOCK % WARP == 0, "block_sum needs whole warps");
    T sum = 0;
    const unsigned long long first = (unsigned long long)blockIdx.x * BLOCK + threadIdx.x;
    const unsigned long long stride = (unsigned long long)gridDim.x * BLOCK;
    for (unsigned long long i = first; i < n; i += stride) sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// This form instantiates without repeating the parameter list.
template __global__ decltype(::reduce<float, 128>)(::reduce<float, 128>);
template __global__ decltype(::reduce<float, 256>)(::reduce<float, 256>);
template __global__ decltype(::reduce<double, 256>)(::reduce<double, 256>);
