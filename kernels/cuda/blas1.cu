// The first level of BLAS, for f32 and f64, on contiguous vectors.
//
// Each kernel takes any grid: a thread strides over the vector by the size of the
// grid. The reductions (`dot`, `nrm2`) need blocks of whole warps.

#include "block_sum.cuh"

// Calls `visit` with each index of this thread. The index is 64 bits wide because
// the last stride may step past 2^32.
template <typename Visit>
__device__ void for_each(unsigned int n, Visit visit) {
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += stride) visit(i);
}

template <typename T>
__device__ void axpy(unsigned int n, T a, const T* __restrict__ x, T* __restrict__ y) {
    for_each(n, [=](unsigned long long i) { y[i] = a * x[i] + y[i]; });
}

template <typename T>
__device__ void scal(unsigned int n, T a, T* x) {
    for_each(n, [=](unsigned long long i) { x[i] = a * x[i]; });
}

// Adds to `out`, so that the blocks need no second launch: the caller zeroes it.
// The order of the additions, and with it the last bits, differs from run to run.
template <typename T>
__device__ void dot(unsigned int n, const T* x, const T* y, T* out) {
    T sum = 0;
    for_each(n, [&](unsigned long long i) { sum += x[i] * y[i]; });
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

// y = a * x + y
__global__ void saxpy(unsigned int n, float a, const float* __restrict__ x, float* __restrict__ y) {
    axpy(n, a, x, y);
}

// y = a * x + y
__global__ void daxpy(unsigned int n, double a, const double* __restrict__ x,
                      double* __restrict__ y) {
    axpy(n, a, x, y);
}

// x = a * x
__global__ void sscal(unsigned int n, float a, float* x) { scal(n, a, x); }

// x = a * x
__global__ void dscal(unsigned int n, double a, double* x) { scal(n, a, x); }

// out += x . y
__global__ void sdot(unsigned int n, const float* x, const float* y, float* out) {
    dot(n, x, y, out);
}

// out += x . y
__global__ void ddot(unsigned int n, const double* x, const double* y, double* out) {
    dot(n, x, y, out);
}

// out += x . x, the square of the norm: the root can only be taken once all blocks
// have added their part, and the host is the first to know that they have.
__global__ void snrm2(unsigned int n, const float* x, float* out) { dot(n, x, x, out); }

// out += x . x, as `snrm2`.
__global__ void dnrm2(unsigned int n, const double* x, double* out) { dot(n, x, x, out); }
