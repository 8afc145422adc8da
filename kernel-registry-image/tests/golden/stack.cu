// Kernels whose stack tools know, and kernels whose stack they do not.

#define WITH_FRAME(words, calls) \
    if (depth == 0) return x[0]; \
    unsigned int own[words]; \
    for (int i = 0; i < 8; i++) own[(depth * 37 + i * x[2]) & (words - 1)] = x[1] + i; \
    return own[depth & (words - 1)] + (calls);

#define FUNCTION __device__ __noinline__ unsigned int
#define KERNEL extern "C" __global__ void

FUNCTION flat(unsigned int depth, unsigned int* x) { WITH_FRAME(1024, 0) }

FUNCTION leaf(unsigned int depth, unsigned int* x) { return x[depth] * x[depth + 1]; }

FUNCTION deep(unsigned int depth, unsigned int* x) { WITH_FRAME(2048, deep(depth - 1, x)) }

FUNCTION small(unsigned int depth, unsigned int* x) {
    if (depth == 0) return x[0];
    return small(depth - 1, x) * 3 + x[depth];
}

FUNCTION odd(unsigned int depth, unsigned int* x);
FUNCTION even(unsigned int depth, unsigned int* x) { WITH_FRAME(256, odd(depth - 1, x)) }
FUNCTION odd(unsigned int depth, unsigned int* x) { WITH_FRAME(512, even(depth - 1, x)) }

typedef unsigned int (*Function)(unsigned int, unsigned int*);
__device__ Function functions[2] = {flat, leaf};

KERNEL plain(unsigned int* x, unsigned int n) { x[0] = n; }
KERNEL calls_leaf(unsigned int* x, unsigned int n) { x[0] = leaf(n, x); }
KERNEL calls_flat(unsigned int* x, unsigned int n) { x[0] = flat(n, x); }
KERNEL calls_pointer(unsigned int* x, unsigned int n) { x[0] = functions[n & 1](n, x); }
KERNEL recurses(unsigned int* x, unsigned int n) { x[0] = deep(n, x); }
KERNEL recurses_little(unsigned int* x, unsigned int n) { x[0] = small(n, x); }
KERNEL recurses_mutually(unsigned int* x, unsigned int n) { x[0] = even(n, x); }
KERNEL recurses_and_more(unsigned int* x, unsigned int n) {
    unsigned int own[128];
    for (int i = 0; i < 8; i++) own[(n * 37 + i * x[2]) & 127] = x[1] + i;
    x[0] = deep(n, x) + flat(n, x) + own[n & 127];
}
