// Kernels that are right or wrong, as their names say: in the wrong ones, nothing orders two accesses to the same memory.
// `races.rs` says how each is launched. All loops end, whatever the order.

#define KERNEL(name) extern "C" __global__ void name(int *data, int *flag, int *out)

static const int ROUNDS = 1000;

static __device__ int load(int *from) { return *(volatile int *)from; }
static __device__ void store(int *to, int value) { *(volatile int *)to = value; }

// Shared memory, in a block of two warps.

KERNEL(wrong_no_barrier) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = data[t];
    out[t] = s[t ^ 32];
}

KERNEL(right_barrier) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = data[t];
    __syncthreads();
    out[t] = s[t ^ 32];
}

KERNEL(right_barrier_that_votes) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = data[t];
    int any = __syncthreads_or(data[t] > 3);
    out[t] = s[t ^ 32] + any;
}

KERNEL(wrong_one_barrier_in_a_loop) {
    __shared__ int s[64];
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 3; i++) {
        s[t] = data[t] + i;
        __syncthreads();
        sum += s[t ^ 32];
    }
    out[t] = sum;
}

KERNEL(right_two_barriers_in_a_loop) {
    __shared__ int s[64];
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 3; i++) {
        s[t] = data[t] + i;
        __syncthreads();
        sum += s[t ^ 32];
        __syncthreads();
    }
    out[t] = sum;
}

KERNEL(right_two_buffers) {
    __shared__ int s[2][64];
    int t = threadIdx.x, sum = 0;
    for (int i = 0; i < 4; i++) {
        s[i & 1][t] = data[t] + i;
        __syncthreads();
        sum += s[i & 1][t ^ 32];
    }
    out[t] = sum;
}

KERNEL(wrong_sync_of_one_warp) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = data[t];
    __syncwarp();
    out[t] = s[t ^ 32];
}

KERNEL(right_sync_of_one_warp) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = data[t];
    __syncwarp();
    out[t] = s[t ^ 16];
}

KERNEL(wrong_sum_in_a_warp) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = data[t];
    for (int step = 16; step > 0; step /= 2)
        if (t < step) s[t] += s[t + step];
    if (t == 0) out[0] = s[0];
}

KERNEL(right_sum_in_a_warp) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = data[t];
    __syncwarp();
    for (int step = 16; step > 0; step /= 2) {
        if (t < step) s[t] += s[t + step];
        __syncwarp();
    }
    if (t == 0) out[0] = s[0];
}

KERNEL(right_sum_by_shuffles) {
    int sum = data[threadIdx.x];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x == 0) out[0] = sum;
}

KERNEL(wrong_shuffle_as_a_barrier) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = data[t];
    int other = __shfl_xor_sync(~0u, t, 1);
    out[t] = s[other];
}

KERNEL(right_half_of_a_warp) {
    __shared__ int s[16];
    int t = threadIdx.x;
    if (t < 16) {
        s[t] = data[t];
        __syncwarp(0xffff);
        out[t] = s[t ^ 1];
    }
}

KERNEL(wrong_two_halves_of_a_warp) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = data[t];
    if (t < 16) {
        __syncwarp(0xffff);
        out[t] = s[t + 16];
    } else {
        __syncwarp(0xffff0000);
    }
}

KERNEL(wrong_histogram) {
    __shared__ int bins[4];
    int t = threadIdx.x;
    if (t < 4) bins[t] = 0;
    __syncthreads();
    bins[data[t] & 3]++;
    __syncthreads();
    if (t < 4) out[t] = bins[t];
}

KERNEL(right_histogram) {
    __shared__ int bins[4];
    int t = threadIdx.x;
    if (t < 4) bins[t] = 0;
    __syncthreads();
    atomicAdd(&bins[data[t] & 3], 1);
    __syncthreads();
    if (t < 4) out[t] = bins[t];
}

KERNEL(wrong_histogram_read_early) {
    __shared__ int bins[4];
    int t = threadIdx.x;
    if (t < 4) bins[t] = 0;
    __syncthreads();
    atomicAdd(&bins[data[t] & 3], 1);
    if (t < 4) out[t] = bins[t];
}

KERNEL(right_same_value) {
    __shared__ int done;
    done = 1;
    __syncthreads();
    out[threadIdx.x] = done;
}

KERNEL(wrong_different_values) {
    __shared__ int last;
    last = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = last;
}

KERNEL(right_scan) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = data[t];
    __syncthreads();
    for (int step = 1; step < 64; step *= 2) {
        int left = t >= step ? s[t - step] : 0;
        __syncthreads();
        s[t] += left;
        __syncthreads();
    }
    out[t] = s[t];
}

KERNEL(wrong_scan) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = data[t];
    __syncthreads();
    for (int step = 1; step < 64; step *= 2) {
        int left = t >= step ? s[t - step] : 0;
        s[t] += left;
        __syncthreads();
    }
    out[t] = s[t];
}

KERNEL(right_named_barriers) {
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 32) {
        s[t] = data[t];
        asm volatile("barrier.arrive 1, 64;" ::: "memory");
    } else {
        asm volatile("barrier.sync 1, 64;" ::: "memory");
        out[t] = s[t - 32];
    }
}

KERNEL(wrong_named_barriers) {
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 32) {
        s[t] = data[t];
        asm volatile("barrier.arrive 1, 64;" ::: "memory");
        s[t] = 0;
    } else {
        asm volatile("barrier.sync 1, 64;" ::: "memory");
        out[t] = s[t - 32];
    }
}

KERNEL(right_threads_that_left) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = data[t];
    if (t >= 48) return;
    __syncthreads();
    out[t] = s[t ^ 32];
}

KERNEL(right_bytes_of_a_word) {
    __shared__ char s[64];
    int t = threadIdx.x;
    s[t] = data[t];
    __syncthreads();
    out[t] = s[t ^ 33];
}

KERNEL(wrong_byte_of_another) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = data[t];
    if (t < 63) ((char *)s)[4 * t + 4] = 1;
    __syncthreads();
    out[t] = s[t];
}

KERNEL(right_thread_that_left_after_a_fence) {
    __shared__ int s;
    int t = threadIdx.x;
    if (t == 33) {
        __threadfence();
        __threadfence();
        store(&s, 7);
        s = data[t];
        return;
    }
    __syncthreads();
    out[t] = s;
}

static __device__ void init(unsigned long long *barrier, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(count) : "memory");
}

static __device__ void arrive(unsigned long long *barrier) {
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory");
}

static __device__ bool is_passed(unsigned long long *barrier) {
    int passed;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.s32 %0, 1, 0, p; }"
                 : "=r"(passed) : "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory");
    return passed;
}

KERNEL(right_mbarrier) {
    __shared__ unsigned long long barrier;
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t == 0) init(&barrier, 32);
    __syncthreads();
    if (t < 32) {
        s[t] = data[t];
        arrive(&barrier);
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (is_passed(&barrier)) {
                out[t] = s[t - 32];
                break;
            }
    }
}

KERNEL(wrong_mbarrier) {
    __shared__ unsigned long long barrier;
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t == 0) init(&barrier, 32);
    __syncthreads();
    if (t < 32) {
        arrive(&barrier);
        s[t] = data[t];
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (is_passed(&barrier)) {
                out[t] = s[t - 32];
                break;
            }
    }
}

// Flags between two blocks: block 0 sends, block 1 receives.

static __device__ int acquire(int *from) {
    int value;
    asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

static __device__ void release(int *to, int value) {
    asm volatile("st.release.gpu.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

static __device__ int acquire_in_block(int *from) {
    int value;
    asm volatile("ld.acquire.cta.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

static __device__ void release_in_block(int *to, int value) {
    asm volatile("st.release.cta.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

#define WAIT(condition) for (int i = 0; i < ROUNDS && !(condition); i++) {}

KERNEL(wrong_flag_without_fences) {
    if (blockIdx.x == 0) {
        *data = 7;
        store(flag, 1);
    } else {
        WAIT(load(flag));
        *out = *data;
    }
}

KERNEL(right_flag_with_fences) {
    if (blockIdx.x == 0) {
        *data = 7;
        __threadfence();
        store(flag, 1);
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (load(flag)) {
                __threadfence();
                *out = *data;
                break;
            }
    }
}

KERNEL(wrong_flag_without_the_readers_fence) {
    if (blockIdx.x == 0) {
        *data = 7;
        __threadfence();
        store(flag, 1);
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (load(flag)) {
                *out = *data;
                break;
            }
    }
}

KERNEL(wrong_flag_without_the_writers_fence) {
    if (blockIdx.x == 0) {
        *data = 7;
        store(flag, 1);
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (load(flag)) {
                __threadfence();
                *out = *data;
                break;
            }
    }
}

KERNEL(wrong_plain_flag) {
    if (blockIdx.x == 0) {
        *data = 7;
        __threadfence();
        *flag = 1;
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (load(flag)) {
                __threadfence();
                *out = *data;
                break;
            }
    }
}

KERNEL(right_release_and_acquire) {
    if (blockIdx.x == 0) {
        *data = 7;
        release(flag, 1);
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (acquire(flag)) {
                *out = *data;
                break;
            }
    }
}

KERNEL(wrong_release_before_the_data) {
    if (blockIdx.x == 0) {
        release(flag, 1);
        *data = 7;
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (acquire(flag)) {
                *out = *data;
                break;
            }
    }
}

KERNEL(wrong_scope_of_the_block) {
    if (blockIdx.x == 0) {
        *data = 7;
        release_in_block(flag, 1);
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (acquire_in_block(flag)) {
                *out = *data;
                break;
            }
    }
}

KERNEL(right_scope_of_the_block) {
    int t = threadIdx.x;
    if (t == 0) {
        *data = 7;
        release_in_block(flag, 1);
    } else if (t == 32) {
        for (int i = 0; i < ROUNDS; i++)
            if (acquire_in_block(flag)) {
                *out = *data;
                break;
            }
    }
}

KERNEL(wrong_fence_of_the_block) {
    if (blockIdx.x == 0) {
        *data = 7;
        __threadfence_block();
        store(flag, 1);
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (load(flag)) {
                __threadfence_block();
                *out = *data;
                break;
            }
    }
}

KERNEL(right_flags_of_many_blocks) {
    if (blockIdx.x > 0) {
        data[blockIdx.x] = 7;
        __threadfence();
        store(&flag[blockIdx.x], 1);
    } else {
        int all = 1;
        for (int block = 1; block < gridDim.x; block++) {
            WAIT(load(&flag[block]));
            all &= load(&flag[block]);
        }
        __threadfence();
        for (int block = 1; all && block < gridDim.x; block++) out[block] = data[block];
    }
}

KERNEL(right_flag_in_a_vector) {
    if (blockIdx.x == 0) {
        *data = 7;
        __threadfence();
        asm volatile("st.volatile.v2.u32 [%0], {%1, %1};" ::"l"(flag), "r"(1) : "memory");
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (load(&flag[1])) {
                __threadfence();
                *out = *data;
                break;
            }
    }
}

KERNEL(right_three_blocks) {
    if (blockIdx.x == 0) {
        *data = 7;
        release(&flag[0], 1);
    } else if (blockIdx.x == 1) {
        for (int i = 0; i < ROUNDS; i++)
            if (acquire(&flag[0])) {
                release(&flag[1], 1);
                break;
            }
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (acquire(&flag[1])) {
                *out = *data;
                break;
            }
    }
}

KERNEL(wrong_three_blocks) {
    if (blockIdx.x == 0) {
        *data = 7;
        release(&flag[0], 1);
    } else if (blockIdx.x == 1) {
        for (int i = 0; i < ROUNDS; i++)
            if (load(&flag[0])) {
                release(&flag[1], 1);
                break;
            }
    } else {
        for (int i = 0; i < ROUNDS; i++)
            if (acquire(&flag[1])) {
                *out = *data;
                break;
            }
    }
}

// The whole blocks take part.

KERNEL(right_leaders_fence_for_the_block) {
    __shared__ int go;
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = t;
        __syncthreads();
        if (t == 0) {
            __threadfence();
            store(flag, 1);
        }
    } else {
        if (t == 0) {
            WAIT(load(flag));
            go = load(flag);
            __threadfence();
        }
        __syncthreads();
        if (go) out[t] = data[t ^ 5];
    }
}

KERNEL(wrong_leader_before_the_block) {
    __shared__ int go;
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = t;
        if (t == 0) {
            __threadfence();
            store(flag, 1);
        }
    } else {
        if (t == 0) {
            WAIT(load(flag));
            go = load(flag);
            __threadfence();
        }
        __syncthreads();
        if (go) out[t] = data[t ^ 5];
    }
}

KERNEL(wrong_leader_without_a_barrier) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = t;
        __syncthreads();
        if (t == 0) {
            __threadfence();
            store(flag, 1);
        }
    } else {
        if (t == 0) {
            WAIT(load(flag));
            __threadfence();
        }
        out[t] = data[t];
    }
}

KERNEL(right_fences_before_the_barrier) {
    __shared__ int go;
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = t;
        __threadfence();
        __syncthreads();
        if (t == 0) atomicExch(flag, 1);
    } else {
        if (t == 0) {
            WAIT(load(flag));
            go = load(flag);
        }
        __syncthreads();
        __threadfence();
        if (go) out[t] = data[t ^ 5];
    }
}

KERNEL(right_last_block) {
    __shared__ int last;
    int t = threadIdx.x;
    data[blockIdx.x * 64 + t] = t;
    __threadfence();
    __syncthreads();
    if (t == 0) last = atomicAdd(flag, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        __threadfence();
        int sum = 0;
        for (int block = 0; block < gridDim.x; block++) sum += data[block * 64 + t];
        out[t] = sum;
    }
}

KERNEL(wrong_last_block) {
    __shared__ int last;
    int t = threadIdx.x;
    data[blockIdx.x * 64 + t] = t;
    __syncthreads();
    if (t == 0) last = atomicAdd(flag, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        int sum = 0;
        for (int block = 0; block < gridDim.x; block++) sum += data[block * 64 + t];
        out[t] = sum;
    }
}

static __device__ void barrier_of_grid(int *count, int target) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1);
        WAIT(load(count) >= target);
        __threadfence();
    }
    __syncthreads();
}

KERNEL(right_barrier_of_the_grid) {
    int t = threadIdx.x, n = gridDim.x, b = blockIdx.x;
    data[b * 64 + t] = t;
    barrier_of_grid(flag, n);
    out[b * 64 + t] = data[(b + 1) % n * 64 + t];
    barrier_of_grid(flag, 2 * n);
    data[b * 64 + t] = 0;
}

KERNEL(wrong_barrier_of_the_grid) {
    int t = threadIdx.x, n = gridDim.x, b = blockIdx.x;
    data[b * 64 + t] = t;
    barrier_of_grid(flag, n);
    out[b * 64 + t] = data[(b + 1) % n * 64 + t];
    data[b * 64 + t] = 0;
}

// Locks, one thread of each block.

KERNEL(right_lock) {
    for (int i = 0; i < ROUNDS; i++)
        if (atomicCAS(flag, 0, 1) == 0) {
            __threadfence();
            *data += 1;
            __threadfence();
            atomicExch(flag, 0);
            break;
        }
}

KERNEL(wrong_lock) {
    for (int i = 0; i < ROUNDS; i++)
        if (atomicCAS(flag, 0, 1) == 0) {
            *data += 1;
            atomicExch(flag, 0);
            break;
        }
}

KERNEL(right_lock_with_orders) {
    for (int i = 0; i < ROUNDS; i++) {
        int old;
        asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(flag) : "memory");
        if (old == 0) {
            *data += 1;
            asm volatile("atom.release.gpu.global.exch.b32 %0, [%1], 0;" : "=r"(old) : "l"(flag) : "memory");
            break;
        }
    }
}

KERNEL(wrong_lock_of_the_block) {
    for (int i = 0; i < ROUNDS; i++) {
        int old;
        asm volatile("atom.acquire.cta.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(flag) : "memory");
        if (old == 0) {
            *data += 1;
            asm volatile("atom.release.cta.global.exch.b32 %0, [%1], 0;" : "=r"(old) : "l"(flag) : "memory");
            break;
        }
    }
}

KERNEL(right_ticket_lock) {
    int mine = atomicAdd(&flag[0], 1);
    for (int i = 0; i < ROUNDS; i++)
        if (load(&flag[1]) == mine) {
            __threadfence();
            *data += 1;
            __threadfence();
            store(&flag[1], mine + 1);
            break;
        }
}

KERNEL(wrong_ticket_lock) {
    int mine = atomicAdd(&flag[0], 1);
    for (int i = 0; i < ROUNDS; i++)
        if (load(&flag[1]) == mine) {
            __threadfence();
            *data += 1;
            store(&flag[1], mine + 1);
            break;
        }
}

KERNEL(wrong_first_use) {
    if (*flag == 0) {
        *data = 7;
        __threadfence();
        *flag = 1;
    }
    out[blockIdx.x] = *data;
}

KERNEL(right_first_use) {
    if (acquire(flag) == 0 && atomicCAS(&flag[1], 0, 1) == 0) {
        *data = 7;
        release(flag, 1);
    }
    for (int i = 0; i < ROUNDS; i++)
        if (acquire(flag)) {
            out[blockIdx.x] = *data;
            break;
        }
}

// Counters and neighbours.

KERNEL(wrong_wide_counter_values) { *(double *)data = blockIdx.x + 1; }

KERNEL(wrong_vector_counter_values) { *(int4 *)data = make_int4(1, blockIdx.x, 2, 3); }

KERNEL(right_same_counter_values) { *(int4 *)data = make_int4(1, 2, 3, 4); }

KERNEL(wrong_counter) { *data += 1; }

KERNEL(right_counter) { atomicAdd(data, 1); }

KERNEL(wrong_counter_that_is_read) {
    if (blockIdx.x == 0) atomicAdd(data, 1);
    else *out = *data;
}

KERNEL(right_counter_that_is_read) {
    if (blockIdx.x == 0) atomicAdd(data, 1);
    else *out = load(data);
}

KERNEL(wrong_neighbours) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    data[at] = data[at + 1] + 1;
}

KERNEL(right_neighbours) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = data[at + 1] + 1;
}

// A ring of four slots, from block 0 to block 1.

static __device__ void send(int *ring, int *head, int *tail, bool waits) {
    for (int item = 0; item < 8; item++) {
        if (waits) WAIT(item - acquire(tail) < 4);
        if (waits && item - acquire(tail) >= 4) return;
        ring[item % 4] = item;
        release(head, item + 1);
    }
}

static __device__ int receive(int *ring, int *head, int *tail) {
    int sum = 0;
    for (int item = 0; item < 8; item++) {
        WAIT(acquire(head) > item);
        if (acquire(head) <= item) return -1;
        sum += ring[item % 4];
        release(tail, item + 1);
    }
    return sum;
}

KERNEL(right_ring) {
    if (blockIdx.x == 0) send(data, &flag[0], &flag[1], true);
    else *out = receive(data, &flag[0], &flag[1]);
}

KERNEL(wrong_ring) {
    if (blockIdx.x == 0) send(data, &flag[0], &flag[1], false);
    else *out = receive(data, &flag[0], &flag[1]);
}
