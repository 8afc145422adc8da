// A kernel whose shared memory is sized at launch, beyond the 48 KiB that a kernel
// gets without asking.

// bins[v] += how often v occurs in `values`; values outside the histogram are not
// counted. The caller zeroes `bins`.
//
// Each block counts in shared memory first, where colliding increments are cheap,
// and adds its counts to `bins` once. It needs 4 * bin_count bytes of dynamic shared
// memory: the 25,000 bins of the sample, 100,000 bytes, fit every architecture from
// sm_80 on (sm_86 and sm_89 stop at 99 KiB), but not sm_75 with its 64 KiB.
__global__ void histogram(unsigned int n, const unsigned int* values, unsigned int bin_count,
                          unsigned int* bins) {
    extern __shared__ unsigned int counts[];
    for (unsigned int bin = threadIdx.x; bin < bin_count; bin += blockDim.x) counts[bin] = 0;
    __syncthreads();

    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = first; i < n; i += stride) {
        if (values[i] < bin_count) atomicAdd(&counts[values[i]], 1u);
    }
    __syncthreads();

    for (unsigned int bin = threadIdx.x; bin < bin_count; bin += blockDim.x) {
        // Most bins of a block stay empty, and a skipped atomic is the fastest one.
        if (counts[bin] != 0) atomicAdd(&bins[bin], counts[bin]);
    }
}
