// Integers, bits and atomic operations.

extern "C" __global__ void bits(const unsigned int* in, unsigned int* out) {
    unsigned int a = in[threadIdx.x], b = in[threadIdx.x ^ 1];
    unsigned int* own = out + 16 * threadIdx.x;
    own[0] = __popc(a);
    own[1] = __clz(a);
    own[2] = __brev(a);
    own[3] = __ffs(a);
    own[4] = __funnelshift_l(a, b, 5);
    own[5] = __funnelshift_r(a, b, b);
    own[6] = __byte_perm(a, b, 0x5410);
    own[7] = __umulhi(a, b);
    own[8] = __mulhi((int)a, (int)b);
    asm("dp4a.s32.u32 %0, %1, %2, 7;" : "=r"(own[9]) : "r"(a), "r"(b));
    own[10] = __usad(a, b, 3);
    own[11] = __vadd4(a, b);
    own[12] = a / (b | 1);
    own[13] = (int)a % (int)(b | 1);
    own[14] = __rhadd((int)a, (int)b);
    own[15] = __popcll((unsigned long long)a * b);
}

extern "C" __global__ void wide(const unsigned long long* in, unsigned long long* out) {
    unsigned long long a = in[threadIdx.x], b = in[threadIdx.x ^ 1];
    unsigned long long* own = out + 7 * threadIdx.x;
    own[0] = a / (b | 1);
    own[1] = a % (b | 1);
    own[2] = (long long)a / (long long)(b | 1);
    own[3] = (long long)a % (long long)(b | 1);
    own[4] = __umul64hi(a, b);
    own[5] = __clzll(a) + 64 * __ffsll(b);
    own[6] = (a << (b & 63)) ^ ((long long)a >> (b & 63));
}

extern "C" __global__ void crc(int n, const unsigned char* in, unsigned int* out) {
    in += threadIdx.x * n;
    unsigned int sum = 0xffffffff;
    for (int i = 0; i < n; i++) {
        sum ^= in[i];
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (0xedb88320 & -(sum & 1));
    }
    out[threadIdx.x] = ~sum;
}

// ChaCha20: sixteen words in registers, turned round.
extern "C" __global__ void chacha(const unsigned int* key, unsigned int* out) {
    unsigned int start[16], word[16];
    for (int i = 0; i < 16; i++) start[i] = key[i];
    start[12] += blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 16; i++) word[i] = start[i];
    auto turn = [&](int a, int b, int c, int d) {
        word[a] += word[b], word[d] = __funnelshift_l(word[d] ^ word[a], word[d] ^ word[a], 16);
        word[c] += word[d], word[b] = __funnelshift_l(word[b] ^ word[c], word[b] ^ word[c], 12);
        word[a] += word[b], word[d] = __funnelshift_l(word[d] ^ word[a], word[d] ^ word[a], 8);
        word[c] += word[d], word[b] = __funnelshift_l(word[b] ^ word[c], word[b] ^ word[c], 7);
    };
    for (int i = 0; i < 10; i++) {
        turn(0, 4, 8, 12), turn(1, 5, 9, 13), turn(2, 6, 10, 14), turn(3, 7, 11, 15);
        turn(0, 5, 10, 15), turn(1, 6, 11, 12), turn(2, 7, 8, 13), turn(3, 4, 9, 14);
    }
    uint4* to = reinterpret_cast<uint4*>(out) + 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    for (int i = 0; i < 4; i++)
        to[i] = make_uint4(word[4 * i] + start[4 * i], word[4 * i + 1] + start[4 * i + 1], word[4 * i + 2] + start[4 * i + 2],
                           word[4 * i + 3] + start[4 * i + 3]);
}

// Open addressing; the key 0 is a free place.
extern "C" __global__ void insert(int n, unsigned int size, const unsigned int* keys, unsigned int* table, unsigned int* counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (unsigned int at = keys[i] * 2654435761u % size;; at = (at + 1) % size) {
        unsigned int old = atomicCAS(&table[at], 0, keys[i]);
        if (old == 0 || old == keys[i]) {
            atomicAdd(&counts[at], 1);
            return;
        }
    }
}

__device__ float least(float* at, float value) {
    int* bits = reinterpret_cast<int*>(at);
    int old = *bits, seen;
    do {
        seen = old;
        if (__int_as_float(seen) <= value) break;
        old = atomicCAS(bits, seen, __float_as_int(value));
    } while (old != seen);
    return __int_as_float(old);
}

extern "C" __global__ void atomics(unsigned int* a, unsigned long long* b, float* c, double* d, unsigned short* e, int* f) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&a[0], i);
    atomicSub(&a[1], 2);
    atomicMax(&a[2], i);
    atomicMin(&a[3], i + 5);
    atomicAnd(&a[4], ~(1u << i % 32));
    atomicOr(&a[5], 1u << i % 7);
    atomicXor(&a[6], i);
    atomicInc(&a[7], 9);
    atomicDec(&a[8], 9);
    atomicAdd(&b[0], (unsigned long long)i << 30);
    atomicMax((long long*)&b[1], (long long)i - 1000);
    atomicCAS(&b[2], 5ull, 6ull);
    atomicAdd(&c[0], 0.5f);
    least(&c[1], 100.0f - i);
    atomicAdd(&d[0], 0.25);
    unsigned short old = 1;
    while (old % 2 == 1) old = atomicCAS(e, (unsigned short)(2 * i), (unsigned short)(2 * i + 2)) == 2 * i ? 0 : 1;
    f[i] = atomicExch(&f[gridDim.x * blockDim.x], i);
}
