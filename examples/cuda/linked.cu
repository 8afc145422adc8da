// Kernels that C++ launches with `<<<>>>`: the driver loads each at its first launch, and nothing in Rust declares them.

#include <chrono>
#include <cooperative_groups.h>
#include <cstdio>

__global__ void plain(int* out) { *out += 1; }

static __global__ void file_local(int* out) { *out += 1; }

template <int N>
__global__ void add(int* out) { *out += N; }

namespace {
__global__ void anonymous(int* out) { *out += 1; }
}

// 8 KiB of stack for each thread: more than the driver sets aside.
__global__ void large_frame(int* out, int n) {
  volatile int values[2048];
  for (int i = 0; i <= n; i++) values[i & 2047] = *out;
  *out = values[n & 2047] + 1;
}

// Contains printf, but never prints: `n` is never above 1000.
__global__ void prints(int* out, int n) {
  *out += 1;
  if (n > 1000) printf("%d\n", n);
}

// 3 KiB of stack for each call. The compiler cannot know how many calls there are.
__device__ __noinline__ int deep(int n, int* out) {
  volatile int values[750];
  for (int i = 0; i < 16; i++) values[(n + i) % 750] = *out;
  return n == 0 ? values[0] : deep(n - 1, out) + values[n % 750];
}

__global__ void recursive(int* out, int n) { *out += deep(n, out) > 1 << 30 ? 0 : 1; }

__global__ void shared_memory(int* out) {
  extern __shared__ int values[];
  values[0] = 1;
  *out += values[0];
}

__global__ void clustered(int* out) {
  if (blockIdx.x == 0) *out += 1;
}

// Only nvcc's separate compilation (`-rdc=true`) lets kernels launch kernels.
#ifdef __CUDACC_RDC__
__global__ void parent(int* out) { plain<<<1, 1>>>(out); }
#endif

// Runs until it is told to end, or until its time is over.
__global__ void stay(volatile int* mailbox, long long limit) {
  unsigned long long begun, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
  mailbox[0] = 1;
  __threadfence_system();
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - begun > limit) {
      mailbox[0] = 2;
      __threadfence_system();
      return;
    }
  } while (mailbox[1] == 0);
}

enum Kind { PLAIN, FILE_LOCAL, TEMPLATE, ANONYMOUS, LARGE_FRAME, PRINTS, RECURSIVE, SHARED, CLUSTER, LAUNCHES, KINDS };

static const char* const NAMES[KINDS] = {
    "plain", "static", "a template's instance", "in an anonymous namespace", "a frame of 8 KiB", "printf",
    "recursive, with frames of 3 KiB", "64 KiB of dynamic shared memory", "in clusters of 2", "launches a kernel"};

static cudaError_t launch(Kind kind, cudaStream_t stream, int* out) {
  const int SHARED_BYTES = 64 << 10;
  switch (kind) {
    case PLAIN: plain<<<1, 1, 0, stream>>>(out); break;
    case FILE_LOCAL: file_local<<<1, 1, 0, stream>>>(out); break;
    case TEMPLATE: add<1><<<1, 1, 0, stream>>>(out); break;
    case ANONYMOUS: anonymous<<<1, 1, 0, stream>>>(out); break;
    case LARGE_FRAME: large_frame<<<1, 1, 0, stream>>>(out, 10); break;
    case PRINTS: prints<<<1, 1, 0, stream>>>(out, 1); break;
    case RECURSIVE: recursive<<<1, 1, 0, stream>>>(out, 1); break;
    case SHARED:
      cudaFuncSetAttribute(shared_memory, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
      shared_memory<<<1, 1, SHARED_BYTES, stream>>>(out);
      break;
    case CLUSTER: {
      cudaLaunchAttribute cluster = {};
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {2, 1, 1};
      cudaLaunchConfig_t config = {};
      config.gridDim = 2;
      config.blockDim = 1;
      config.stream = stream;
      config.attrs = &cluster;
      config.numAttrs = 1;
      return cudaLaunchKernelEx(&config, clustered, out);
    }
#ifdef __CUDACC_RDC__
    case LAUNCHES: parent<<<1, 1, 0, stream>>>(out); break;
#endif
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

// Memory that host and device both access, two streams, and the number that the kernels count up.
struct Setting {
  volatile int* mailbox;
  cudaStream_t stays, other;
  int* out;
};

static Setting setting;

// Starts the kernel `stay`, and waits until it runs.
static cudaError_t start(double seconds) {
  setting.mailbox[0] = setting.mailbox[1] = 0;
  stay<<<1, 1, 0, setting.stays>>>(setting.mailbox, (long long)(seconds * 1e9));
  cudaError_t error = cudaGetLastError();
  auto begun = std::chrono::steady_clock::now();
  while (error == cudaSuccess && setting.mailbox[0] == 0) {
    if (std::chrono::steady_clock::now() - begun > std::chrono::seconds(20)) return cudaErrorTimeout;
  }
  return error;
}

static cudaError_t stop() {
  setting.mailbox[1] = 1;
  cudaError_t error = cudaStreamSynchronize(setting.stays);
  return error == cudaSuccess ? cudaStreamSynchronize(setting.other) : error;
}

extern "C" {

int linked_kinds() { return KINDS; }
const char* linked_name(int kind) { return NAMES[kind]; }
const char* linked_error(int code) { return cudaGetErrorString((cudaError_t)code); }

// Returns whether this program has a kernel of this kind, and the device can run it.
int linked_is_possible(int kind) {
#ifndef __CUDACC_RDC__
  if (kind == LAUNCHES) return 0;
#endif
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return kind != CLUSTER || major >= 9;
}

// Sets up everything but the kernels to be tested: memory, streams, and a first launch of `stay`.
int linked_set_up() {
  cudaError_t error = cudaHostAlloc((void**)&setting.mailbox, 2 * sizeof(int), cudaHostAllocMapped);
  if (error == cudaSuccess) error = cudaMalloc((void**)&setting.out, sizeof(int));
  if (error == cudaSuccess) error = cudaMemset(setting.out, 0, sizeof(int));
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&setting.stays, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&setting.other, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = start(1);
  return error == cudaSuccess ? stop() : error;
}

// Launches a kernel of this kind for the first time while `stay` runs, for at most `seconds`. `ran` becomes 1 if the kernel ran while
// `stay` was running, and 0 if it waited for `stay`.
int linked_beside(int kind, double seconds, int* ran) {
  cudaError_t error = start(seconds);
  if (error != cudaSuccess) return error;
  error = launch((Kind)kind, setting.other, setting.out);
  while (error == cudaSuccess && setting.mailbox[0] == 1) {
    cudaError_t state = cudaStreamQuery(setting.other);
    if (state != cudaErrorNotReady) {
      error = state;
      break;
    }
  }
  *ran = setting.mailbox[0] == 1;
  cudaError_t stopped = stop();
  return error == cudaSuccess ? stopped : error;
}

// Stores how many kernels have run.
int linked_count(int* count) { return cudaMemcpy(count, setting.out, sizeof(int), cudaMemcpyDeviceToHost); }
}
