// Kernels that don't end for some seconds, and kernels that fault.
//
//     spins CASE SECONDS
// Cases: flag, barrier, replay, two, computes, address, misaligned, assert, trap. With LATE=1 a thread loads a module while the
// kernel runs. Prints `running` when the kernel was launched, and the result of waiting for it. No kernel runs longer than SECONDS.
#include <cuda.h>
#include <cassert>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <thread>

typedef unsigned long long u64;

__device__ __forceinline__ u64 now() {
    u64 nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
}

// Inlined into the kernels that wait for a flag.
__device__ __forceinline__ bool wait_for(volatile unsigned *flag, u64 until) {
    while (*flag == 0) {
        if (now() > until)
            return false;
    }
    return true;
}

// A function of its own, so that a dump has a frame for it.
__device__ __noinline__ bool wait_until_set(volatile unsigned *flag, u64 until) {
    return wait_for(flag, until);
}

__global__ void waits_for_flag(unsigned *flag, unsigned *out, u64 nanoseconds) {
    u64 until = now() + nanoseconds;
    if (threadIdx.x < 32)
        out[threadIdx.x] = wait_until_set(flag, until);
    else
        out[threadIdx.x] = wait_for(flag, until);
}

// A barrier of all blocks, which needs all of them to be resident.
__global__ void barrier_of_blocks(unsigned *arrived, unsigned *out, u64 nanoseconds) {
    extern __shared__ char room[];
    u64 until = now() + nanoseconds;
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (*(volatile unsigned *)arrived < gridDim.x && now() < until) {
        }
        out[0] = room[0];
    }
    __syncthreads();
}

// Waits for the last block of the barrier, whose blocks have too little room while this grid is resident.
__global__ void waits_for_barrier(unsigned *arrived, unsigned *out, unsigned blocks, u64 nanoseconds) {
    extern __shared__ char room[];
    u64 until = now() + nanoseconds;
    while (*(volatile unsigned *)arrived < blocks && now() < until) {
    }
    out[0] = room[0];
}

__global__ void computes(float *out, u64 nanoseconds) {
    u64 until = now() + nanoseconds;
    float x = threadIdx.x;
    while (now() < until) {
        _Pragma("unroll 1") for (int i = 0; i < 1000; i++)
            x = x * 1.0001f + 0.5f;
        _Pragma("unroll 1") for (int i = 0; i < 1000; i++)
            x = __sinf(x);
    }
    out[threadIdx.x] = x;
}

__global__ void writes_beyond(unsigned *out) {
    if (threadIdx.x == 7)
        *out = 1;
}

__global__ void writes_misaligned(char *out) {
    if (threadIdx.x == 7)
        *(unsigned *)(out + 1) = 1;
}

__global__ void asserts(unsigned n) { assert(threadIdx.x != n); }

__global__ void traps(unsigned n) {
    if (threadIdx.x == n)
        asm volatile("trap;");
}

// Code that's loaded while a kernel runs, which waits for that kernel.
static const char *LATE = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry late() { ret; }";

static void check(cudaError_t error, const char *what) {
    if (error) {
        printf("%s: %s\n", what, cudaGetErrorName(error));
        fflush(stdout);
        exit(3);
    }
}

int main(int count, char **words) {
    if (count < 3)
        return 2;
    const char *which = words[1];
    u64 nanoseconds = (u64)(atof(words[2]) * 1e9);
    auto is = [&](const char *name) { return strcmp(which, name) == 0; };
    unsigned *out, *flag, *host, n = 7;
    check(cudaMalloc(&out, 1 << 20), "cudaMalloc");
    check(cudaMemset(out, 0, 1 << 20), "cudaMemset");
    check(cudaHostAlloc(&host, 4, cudaHostAllocMapped), "cudaHostAlloc");
    *host = 0;
    check(cudaHostGetDevicePointer(&flag, host, 0), "cudaHostGetDevicePointer");
    cudaStream_t first, second;
    check(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), "cudaStreamCreate");
    int processors;
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
    const int room = 150 << 10;
    check(cudaFuncSetAttribute(barrier_of_blocks, cudaFuncAttributeMaxDynamicSharedMemorySize, room), "cudaFuncSetAttribute");
    check(cudaFuncSetAttribute(waits_for_barrier, cudaFuncAttributeMaxDynamicSharedMemorySize, room), "cudaFuncSetAttribute");
    // With the same carve-out, blocks of both share a multiprocessor.
    for (auto kernel : {(const void *)barrier_of_blocks, (const void *)waits_for_barrier})
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100), "cudaFuncSetAttribute");
    if (is("flag"))
        waits_for_flag<<<4, 64, 0, first>>>(flag, out, nanoseconds);
    else if (is("barrier"))
        barrier_of_blocks<<<processors + 8, 32, room, first>>>(out, out + 1, nanoseconds);
    else if (is("two")) {
        waits_for_barrier<<<processors, 32, room, first>>>(out, out + 1, 2 * processors, nanoseconds);
        barrier_of_blocks<<<2 * processors, 32, room / 3, second>>>(out, out + 2, nanoseconds);
    } else if (is("replay")) {
        cudaGraph_t graph;
        cudaGraphExec_t ready;
        check(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
        waits_for_flag<<<4, 64, 0, first>>>(flag, out, nanoseconds);
        check(cudaStreamEndCapture(first, &graph), "cudaStreamEndCapture");
        check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
        check(cudaGraphLaunch(ready, first), "cudaGraphLaunch");
    } else if (is("computes"))
        computes<<<8, 64, 0, first>>>((float *)out, nanoseconds);
    else if (is("address"))
        writes_beyond<<<2, 64, 0, first>>>(nullptr);
    else if (is("misaligned"))
        writes_misaligned<<<2, 64, 0, first>>>((char *)out);
    else if (is("assert"))
        asserts<<<2, 64, 0, first>>>(n);
    else if (is("trap"))
        traps<<<2, 64, 0, first>>>(n);
    else
        return 2;
    check(cudaGetLastError(), "launch");
    printf("running\n");
    fflush(stdout);
    std::thread loads;
    if (getenv("LATE"))
        loads = std::thread([] {
            auto load = (CUresult(*)(CUmodule *, const void *))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuModuleLoadData");
            CUmodule module;
            check(cudaSetDevice(0), "cudaSetDevice");
            if (CUresult answer = load(&module, LATE))
                printf("the late load: %d\n", answer);
        });
    cudaError_t ended = cudaStreamSynchronize(first);
    printf("ended: %s\n", cudaGetErrorName(ended));
    fflush(stdout);
    if (loads.joinable())
        loads.join();
    // If the driver is to write a core dump, it returns success after some faults, and writes the dump a moment later.
    if (getenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION"))
        std::this_thread::sleep_for(std::chrono::seconds(5));
    // Ends without destructors: after a fault they only repeat the error.
    _Exit(ended ? 1 : 0);
}
