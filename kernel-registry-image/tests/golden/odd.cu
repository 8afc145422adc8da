// Kernels whose declarations are odd: what the readers have to get right and no sample kernel shows.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cassert>
#include <cstdio>

struct Step { float a; int b; double c; };
struct Large { int values[5000]; };

namespace ns {
template <typename T, int N> struct Type { T v[N]; };
enum class Mode : int { Add };
template <typename T> struct Acc { using type = T; };

template <typename T, bool B, int N> __global__ void mixed(T* p, Type<T, N> t, Mode mode) { p[0] = t.v[0] + int(mode) + B; }
template __global__ void mixed<float, true, 3>(float*, Type<float, 3>, Mode);
template __global__ void mixed<float, false, -3 + 5>(float*, Type<float, 2>, Mode);

template <typename T> __global__ void dependent(typename Acc<T>::type* p, T v) { *p = v; }
template __global__ void dependent<float>(float*, float);

template <class... Ts> __global__ void pack(Ts...) {}
template __global__ void pack<int, float, double*>(int, float, double*);
}  // namespace ns

namespace { __global__ void hidden(int* p, Step s) { *p = s.b; } }
static __global__ void internal(int* p) { *p = 1; }

extern "C" __global__ void plain(int* p, char c, signed char sc, unsigned char uc) { *p = c + sc + uc; }
__global__ void scalars(bool b, char c, signed char sc, unsigned char uc, short s, unsigned short us, int i, unsigned u, long l, unsigned long ul, long long ll, unsigned long long ull, float f, double d, double* o) { *o = b + c + sc + uc + s + us + i + u + l + ul + ll + ull + f + d; }
__global__ void odd_types(void (*f)(int), float (&arr)[4], const float4& r, float* const* pp, const volatile void* v, int (*m)[3]) { f(1); arr[0] = r.x + **pp; m[0][1] = v != nullptr; }
__global__ void halves(__half h, const __half* hp, __nv_bfloat16 b, const __nv_bfloat162* bp, float* o) { *o = __half2float(h) + __half2float(*hp) + __bfloat162float(b) + __bfloat162float(bp->x); }
__global__ void constant_large(const __grid_constant__ Large large, int i, int* o) { *o = large.values[i]; }
__global__ void nothing() {}

__global__ void __launch_bounds__(256, 2) bounded(int* p) { *p = 1; }
#ifdef CLUSTERS
__global__ void __launch_bounds__(128, 4, 2) bounded_cluster(int* p) { *p = 1; }
__global__ void __cluster_dims__(2, 1, 1) fixed_cluster(int* p) { *p = 1; }
__global__ void __block_size__((32, 4, 1)) fixed_block(int* p) { *p = 1; }
#endif

// Calls: through two functions, in a circle, and through a pointer.
__device__ __noinline__ void print(int i) { printf("%d\n", i); }
__device__ __noinline__ void print_twice(int i) { print(i + 1); print(i - 1); }
__device__ __noinline__ int circle(int i) { int a[32]; for (int k = 0; k < i; k++) a[k & 31] = k; return i <= 0 ? a[i & 31] : circle(i - 1) + a[i & 31]; }
__device__ void (*chosen)(int) = print;
__global__ void calls(int i) { print_twice(i); }
__global__ void calls_circle(int i, int* o) { *o = circle(i); }
__global__ void calls_pointer(int i) { chosen(i); }
__global__ void allocates(int** o) { *o = new int[10]; }
__global__ void asserts(int i) { assert(i > 0); }

__global__ void shares(float* o) { __shared__ double a[100]; a[threadIdx.x] = *o; __syncthreads(); *o = a[99 - threadIdx.x]; }
__global__ void frames(int i, int* o) { int a[256]; for (int k = 0; k < 256; k++) a[(k * i) & 255] = o[k]; *o = a[i & 255]; }
