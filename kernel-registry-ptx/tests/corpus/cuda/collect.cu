// Reductions, scans, histograms, sorting: threads that need each other.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

template <typename T> __device__ T sum_of_warp(T value) {
    for (int by = 16; by > 0; by /= 2) value += __shfl_down_sync(0xffffffff, value, by);
    return value;
}

template <typename T> __device__ void sum(int n, const T* in, T* out) {
    __shared__ T parts[32];
    T value = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) value += in[i];
    value = sum_of_warp(value);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = sum_of_warp(threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : T(0));
        if (threadIdx.x == 0) out[blockIdx.x] = value;
    }
}

extern "C" __global__ void sum_floats(int n, const float* in, float* out) { sum(n, in, out); }
extern "C" __global__ void sum_doubles(int n, const double* in, double* out) { sum(n, in, out); }
extern "C" __global__ void sum_longs(int n, const long long* in, long long* out) { sum(n, in, out); }

extern "C" __global__ void sum_of_tiles(const int* in, int* out) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    int all = cg::reduce(tile, value, cg::plus<int>());
    int most = cg::reduce(tile, value, cg::greater<int>());
    if (tile.thread_rank() == 0) {
        int at = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
        out[2 * at] = all;
        out[2 * at + 1] = most;
    }
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void reduced(const unsigned int* in, unsigned int* out) {
    unsigned int value = in[threadIdx.x], lanes = threadIdx.x % 32 < 10 ? 0x3ff : 0xfffffc00;
    unsigned int* own = out + 6 * threadIdx.x;
    own[0] = __reduce_add_sync(lanes, value);
    own[1] = __reduce_min_sync(lanes, value);
    own[2] = __reduce_max_sync(lanes, (int)value);
    own[3] = __reduce_and_sync(lanes, value);
    own[4] = __reduce_or_sync(lanes, value);
    own[5] = __reduce_xor_sync(lanes, value);
}
#endif

extern "C" __global__ void scan(const unsigned int* in, unsigned int* out) {
    extern __shared__ unsigned int sums[];
    unsigned int from = 0, to = blockDim.x;
    sums[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (unsigned int by = 1; by < blockDim.x; by *= 2) {
        unsigned int value = sums[from + threadIdx.x];
        if (threadIdx.x >= by) value += sums[from + threadIdx.x - by];
        sums[to + threadIdx.x] = value;
        unsigned int other = from;
        from = to;
        to = other;
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sums[from + threadIdx.x];
}

// Keeps what is odd, in no order: one atomic operation for the threads that are there.
extern "C" __global__ void filter(int n, const int* in, int* out, unsigned int* count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || in[i] % 2 == 0) return;
    auto group = cg::coalesced_threads();
    unsigned int first = 0;
    if (group.thread_rank() == 0) first = atomicAdd(count, group.size());
    out[group.shfl(first, 0) + group.thread_rank()] = in[i];
}

extern "C" __global__ void histogram(int n, const unsigned char* in, unsigned int* out) {
    __shared__ unsigned int counts[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&counts[in[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], counts[i]);
}

extern "C" __global__ void same_keys(const unsigned int* keys, unsigned int* lanes, int* all) {
    lanes[threadIdx.x] = __match_any_sync(0xffffffff, keys[threadIdx.x] % 5);
    int same;
    lanes[threadIdx.x] ^= __match_all_sync(0xffffffff, (unsigned long long)keys[0], &same);
    all[threadIdx.x] = same + __syncthreads_count(keys[threadIdx.x] % 2) + 100 * __syncthreads_or(keys[threadIdx.x] == 7);
}

extern "C" __global__ void bitonic(unsigned int* data) {
    __shared__ unsigned int keys[512];
    keys[threadIdx.x] = data[threadIdx.x];
    for (unsigned int size = 2; size <= blockDim.x; size *= 2) {
        for (unsigned int by = size / 2; by > 0; by /= 2) {
            __syncthreads();
            unsigned int other = threadIdx.x ^ by;
            if (other > threadIdx.x) {
                bool up = (threadIdx.x & size) == 0;
                unsigned int a = keys[threadIdx.x], b = keys[other];
                if ((a > b) == up) {
                    keys[threadIdx.x] = b;
                    keys[other] = a;
                }
            }
        }
    }
    __syncthreads();
    data[threadIdx.x] = keys[threadIdx.x];
}

// The last block adds up what the others wrote.
__device__ unsigned int finished;

extern "C" __global__ void last_block(int n, const float* in, volatile float* parts, float* out) {
    float value = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) value += in[i];
    value = sum_of_warp(value);
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = value;
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float all = 0;
        for (int i = 0; i < gridDim.x; i++) all += parts[i];
        *out = all;
    }
}

// Each round needs what all blocks wrote in the one before.
extern "C" __global__ void rounds(int count, unsigned int* a, unsigned int* b) {
    auto grid = cg::this_grid();
    unsigned int i = grid.thread_rank(), n = grid.size();
    for (int round = 0; round < count; round++) {
        b[i] = a[(i + 1) % n] + a[(i + n - 1) % n];
        grid.sync();
        unsigned int* other = a;
        a = b;
        b = other;
    }
}
