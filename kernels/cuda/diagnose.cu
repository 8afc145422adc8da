// Kernels that need the driver's help at run time: printf, assert and the device
// heap. The first launch of each kind makes the driver set something up, even when
// the path that needs it is not taken.

// NVRTC brings its own `assert` and finds no host headers.
#ifndef __CUDACC_RTC__
#include <cassert>
#endif

// Prints the index of each NaN.
__global__ void report_nan(unsigned int n, const float* x) {
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && isnan(x[i])) printf("x[%u] is not a number\n", i);
}

// Stops the whole context with an error if an element is infinite or NaN.
__global__ void check_finite(unsigned int n, const float* x) {
    const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) assert(isfinite(x[i]));
}

// The median of each row, one thread a row. The row is sorted in a copy from the
// device heap, whose size only the launch knows. Where the heap is exhausted, the
// median is NaN.
__global__ void row_medians(unsigned int rows, unsigned int columns, const float* x,
                            float* medians) {
    const unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows || columns == 0) return;

    float* sorted = (float*)malloc(sizeof(float) * columns);
    if (sorted == nullptr) {
        medians[row] = nanf("");
        return;
    }
    for (unsigned int i = 0; i < columns; ++i) {
        const float value = x[(unsigned long long)row * columns + i];
        unsigned int hole = i;
        for (; hole > 0 && sorted[hole - 1] > value; --hole) sorted[hole] = sorted[hole - 1];
        sorted[hole] = value;
    }
    medians[row] = sorted[columns / 2];
    free(sorted);
}
