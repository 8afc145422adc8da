// Kernels that do nothing, launched once in each context. The first launch of any kernel that contains printf, assert or
// malloc waits for the whole device while the driver sets these up, even if the kernel does not execute them.
//
// output.ptx is prime.ptx without prime_malloc: loading an image with malloc takes 48 MiB of an H200 for the heap, whatever is launched.
//
// prime.ptx and first.ptx are what NVRTC 12.0 makes of these files with --gpu-architecture=compute_50: they load on
// every driver that this library works with, and on every GPU that these drivers know. But compiling the smallest of
// them takes a driver 10 ms. So the library has prime.fatbin, output.fatbin and first.fatbin: what the ptxas of CUDA 12.0 makes of
// the PTX for sm_70, sm_80 and sm_90, beside the PTX itself for every other GPU, put together by
//
//     fatbinary --64 --compress=false --create=NAME.fatbin --image3=kind=elf,sm=70,file=.. --image3=kind=ptx,sm=50,file=NAME.ptx

extern "C" __global__ void prime_printf(int really) {
    if (really) printf("primed");
}

extern "C" __global__ void prime_assert(int really) { assert(!really); }

extern "C" __global__ void prime_malloc(int really) {
    if (really) free(malloc(8));
}
