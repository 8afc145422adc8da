// Which calls of CUDA's runtime API wait for a resident kernel? Each is tried in a process of its own, beside a resident kernel that gives up
// after a second:
//
//     nvcc -arch=native -o calls tests/census/runtime/calls.cu && ./calls        (and CUDA_MODULE_LOADING=EAGER ./calls)
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

static void check(cudaError_t error, const char *what) {
    if (error != cudaSuccess) {
        printf("error: %s: %s\n", what, cudaGetErrorString(error));
        exit(2);
    }
}
#define OK(call) check(call, #call)

__device__ long long now() {
    long long time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

__global__ void stay(volatile int *state, long long most) {
    state[0] = 1;
    __threadfence_system();
    for (long long begun = now(); now() - begun < most && !state[1];) {}
    state[2] = 1;
}

__device__ int symbol;
__global__ void cold(int *out) { *out = symbol; }
__global__ void loaded(int *out) { *out = 2; }
__global__ void framed(int *out, int at) {
    volatile int frame[4096];
    frame[at] = at;
    *out = frame[at * 7 % 4096];
}
__global__ void prints(int really) {
    if (really) printf("%d\n", really);
}
__global__ void large(int *out) {
    extern __shared__ int room[];
    room[threadIdx.x] = 1;
    *out = room[0];
}

static cudaStream_t side, other;
static cudaEvent_t event;
static cudaGraph_t graph;
static cudaGraphExec_t exec;
static int *device, *second, *third, *pinned, *more_pinned;
static void *pooled;
static int host[1024];
static const size_t BYTES = sizeof host;

static void done() { OK(cudaStreamSynchronize(side)); }
static void launched() { OK(cudaGetLastError()), done(); }
static void captured() {
    OK(cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal));
    loaded<<<1, 1, 0, side>>>(device);
    OK(cudaStreamEndCapture(side, &graph));
}

struct Row {
    const char *name;
    void (*call)();
};

static const Row ROWS[] = {
    {"<<<>>> of a kernel that is not loaded", [] { cold<<<1, 1, 0, side>>>(device), launched(); }},
    {"<<<>>> of a loaded kernel", [] { loaded<<<1, 1, 0, side>>>(device), launched(); }},
    {"<<<>>> of a kernel with a frame of 16 KiB", [] { framed<<<1, 1, 0, side>>>(device, 3), launched(); }},
    {"<<<>>> of a kernel with printf", [] { prints<<<1, 1, 0, side>>>(0), launched(); }},
    {"cudaLaunchKernel of a loaded kernel", [] { void *args[] = {&device}; OK(cudaLaunchKernel((void *)loaded, 1, 1, args, 0, side)), done(); }},
    {"cudaLaunchCooperativeKernel of a loaded kernel", [] { void *args[] = {&device}; OK(cudaLaunchCooperativeKernel((void *)loaded, 1, 1, args, 0, side)), done(); }},
    {"cudaFuncGetAttributes, not loaded", [] { cudaFuncAttributes of; OK(cudaFuncGetAttributes(&of, cold)); }},
    {"cudaFuncGetAttributes, loaded", [] { cudaFuncAttributes of; OK(cudaFuncGetAttributes(&of, loaded)); }},
    {"cudaFuncSetAttribute, not loaded", [] { OK(cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536)); }},
    {"cudaFuncSetAttribute, loaded", [] { OK(cudaFuncSetAttribute(loaded, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536)); }},
    {"cudaOccupancyMaxActiveBlocksPerMultiprocessor, not loaded", [] { int blocks; OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, cold, 32, 0)); }},
    {"cudaGetSymbolAddress", [] { void *at; OK(cudaGetSymbolAddress(&at, symbol)); }},
    {"cudaMemcpyToSymbol", [] { OK(cudaMemcpyToSymbol(symbol, host, sizeof(int))); }},
    {"cudaMemcpyToSymbolAsync", [] { OK(cudaMemcpyToSymbolAsync(symbol, host, sizeof(int), 0, cudaMemcpyHostToDevice, side)), done(); }},
    {"cudaMemcpyFromSymbol", [] { OK(cudaMemcpyFromSymbol(host, symbol, sizeof(int))); }},
    {"cudaMalloc", [] { OK(cudaMalloc(&third, 64 << 20)); }},
    {"cudaFree", [] { OK(cudaFree(second)); }},
    {"cudaMallocAsync", [] { OK(cudaMallocAsync(&pooled, BYTES, side)), done(); }},
    {"cudaFreeAsync", [] { OK(cudaFreeAsync(pooled, side)), done(); }},
    {"cudaMallocHost", [] { OK(cudaMallocHost(&more_pinned, BYTES)); }},
    {"cudaFreeHost", [] { OK(cudaFreeHost(pinned)); }},
    {"cudaHostRegister", [] { OK(cudaHostRegister(host, BYTES, 0)); }},
    {"cudaMemcpy, host to device", [] { OK(cudaMemcpy(device, host, BYTES, cudaMemcpyHostToDevice)); }},
    {"cudaMemcpy, device to host", [] { OK(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost)); }},
    {"cudaMemcpy, device to device", [] { OK(cudaMemcpy(device, second, BYTES, cudaMemcpyDeviceToDevice)); }},
    {"cudaMemcpyAsync, host to device", [] { OK(cudaMemcpyAsync(device, host, BYTES, cudaMemcpyHostToDevice, side)), done(); }},
    {"cudaMemcpyAsync, device to pinned", [] { OK(cudaMemcpyAsync(pinned, device, BYTES, cudaMemcpyDeviceToHost, side)), done(); }},
    {"cudaMemset", [] { OK(cudaMemset(device, 0, BYTES)), done(); }},
    {"cudaMemsetAsync", [] { OK(cudaMemsetAsync(device, 0, BYTES, side)), done(); }},
    {"cudaDeviceSynchronize", [] { OK(cudaDeviceSynchronize()); }},
    {"cudaStreamSynchronize of another stream", [] { OK(cudaStreamSynchronize(other)); }},
    {"cudaStreamSynchronize of the default stream", [] { OK(cudaStreamSynchronize(0)); }},
    {"cudaStreamCreateWithFlags", [] { cudaStream_t made; OK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking)); }},
    {"cudaStreamDestroy", [] { OK(cudaStreamDestroy(other)); }},
    {"cudaEventCreate", [] { cudaEvent_t made; OK(cudaEventCreate(&made)); }},
    {"cudaEventRecord, cudaEventSynchronize", [] { OK(cudaEventRecord(event, side)), OK(cudaEventSynchronize(event)); }},
    {"cudaEventDestroy", [] { OK(cudaEventDestroy(event)); }},
    {"cudaMemGetInfo", [] { size_t some, all; OK(cudaMemGetInfo(&some, &all)); }},
    {"cudaGetDeviceProperties", [] { cudaDeviceProp of; OK(cudaGetDeviceProperties(&of, 0)); }},
    {"cudaDeviceSetLimit, stack", [] { OK(cudaDeviceSetLimit(cudaLimitStackSize, 16384)); }},
    {"cudaDeviceSetLimit, printf", [] { OK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 4 << 20)); }},
    {"capture of a loaded kernel", [] { captured(); }},
    {"cudaGraphInstantiate", [] { cudaGraphExec_t made; OK(cudaGraphInstantiate(&made, graph, 0)); }},
    {"cudaGraphLaunch", [] { OK(cudaGraphLaunch(exec, side)), done(); }},
};
static const int COUNT = sizeof ROWS / sizeof *ROWS;

static int run(const Row &row) {
    volatile int *state;
    OK(cudaHostAlloc((void **)&state, 64, cudaHostAllocMapped));
    memset((void *)state, 0, 64);
    cudaStream_t stays;
    for (cudaStream_t *stream : {&stays, &side, &other}) OK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    OK(cudaEventCreate(&event));
    for (int **memory : {&device, &second}) OK(cudaMalloc(memory, BYTES));
    OK(cudaMallocHost(&pinned, BYTES));
    OK(cudaMallocAsync(&pooled, BYTES, side));
    loaded<<<1, 1, 0, side>>>(device), launched();
    captured();
    OK(cudaGraphInstantiate(&exec, graph, 0));
    stay<<<1, 1, 0, stays>>>(state, 1000), OK(cudaDeviceSynchronize());
    memset((void *)state, 0, 64);
    stay<<<1, 1, 0, stays>>>(state, 1000000000), OK(cudaGetLastError());
    while (!state[0]) {}
    auto begun = std::chrono::steady_clock::now();
    row.call();
    double took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
    printf("%-60s %s %9.2f ms\n", row.name, state[2] ? "WAITS" : "runs ", took);
    state[1] = 1;
    OK(cudaStreamSynchronize(stays));
    return 0;
}

int main(int count, char **words) {
    if (count > 1) return run(ROWS[atoi(words[1])]);
    int failed = 0;
    for (int row = 0; row < COUNT; row++) {
        fflush(stdout);
        failed += system((std::string(words[0]) + " " + std::to_string(row)).c_str()) != 0;
    }
    return failed != 0;
}
