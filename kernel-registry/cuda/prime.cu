// Kernels that do nothing, launched once in each context. The first launch of any kernel that contains
// printf, assert or malloc makes the driver set something up, and waits for the whole device meanwhile;
// it need not take the path that contains it.
//
// prime.ptx and first.ptx are what NVRTC 12.0 makes of these files with --gpu-architecture=compute_50: they load on
// every driver that this library works with, and on every GPU that these drivers know.

extern "C" __global__ void prime_printf(int really) {
    if (really) printf("primed");
}

extern "C" __global__ void prime_assert(int really) { assert(!really); }

extern "C" __global__ void prime_malloc(int really) {
    if (really) free(malloc(8));
}
