// What networks are made of.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float over_block(float value, bool most) {
    __shared__ float parts[32];
    for (int by = 16; by > 0; by /= 2) {
        float other = __shfl_xor_sync(0xffffffff, value, by);
        value = most ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int i = 1; i < blockDim.x / 32; i++) value = most ? fmaxf(value, parts[i]) : value + parts[i];
    return value;
}

extern "C" __global__ void softmax(int n, const float* in, float* out) {
    in += blockIdx.x * n;
    out += blockIdx.x * n;
    float most = -__int_as_float(0x7f800000), sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, in[i]);
    most = over_block(most, true);
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(in[i] - most);
    sum = over_block(sum, false);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = expf(in[i] - most) / sum;
}

extern "C" __global__ void layer_norm(int n, const float* in, const float* weight, const float* bias, float* out) {
    in += blockIdx.x * n;
    out += blockIdx.x * n;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[i];
    float mean = over_block(sum, false) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) squares += (in[i] - mean) * (in[i] - mean);
    float scale = rsqrtf(over_block(squares, false) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = (in[i] - mean) * scale * weight[i] + bias[i];
}

extern "C" __global__ void rms_norm(int n, const __nv_bfloat16* in, const float* weight, __nv_bfloat16* out) {
    in += blockIdx.x * n;
    out += blockIdx.x * n;
    float squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) squares += __bfloat162float(in[i]) * __bfloat162float(in[i]);
    float scale = rsqrtf(over_block(squares, false) / n + 1e-6f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = __float2bfloat16(__bfloat162float(in[i]) * scale * weight[i]);
}

extern "C" __global__ void gelu(int n, const float* in, float* out, float* fast) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    out[i] = 0.5f * x * (1 + erff(x * 0.70710678f));
    fast[i] = 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

extern "C" __global__ void rope(int pairs, float2* data) {
    int i = threadIdx.x, position = blockIdx.x;
    if (i >= pairs) return;
    float sine, cosine, angle = position * powf(10000.0f, -2.0f * i / (2 * pairs));
    sincosf(angle, &sine, &cosine);
    float2 value = data[position * pairs + i];
    data[position * pairs + i] = make_float2(value.x * cosine - value.y * sine, value.x * sine + value.y * cosine);
}

extern "C" __global__ void half_axpy(int n, __half2 a, const __half2* x, __half2* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hfma2(a, x[i], y[i]);
}

extern "C" __global__ void half_dot(int n, const __half* x, const __half* y, float* out) {
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) sum += __half2float(x[i]) * __half2float(y[i]);
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffff, sum, by);
    if (threadIdx.x == 0) *out = sum;
}

extern "C" __global__ void half_operations(__half* a, __half2* total, __half* least) {
    __half x = a[threadIdx.x];
    if (__hgt(x, __float2half(3.0f))) x = __hsub(x, __float2half(1.0f));
    x = __hadd(__hmul(x, x), __hneg(__float2half(0.5f)));
    a[threadIdx.x] = __hmax(x, __int2half_rn(2));
    atomicAdd(total, __halves2half2(__float2half(1.0f), __int2half_rn(threadIdx.x % 4)));
    if (threadIdx.x == 0) *least = hsqrt(__float2half(2.0f));
}

extern "C" __global__ void bfloat_operations(const __nv_bfloat162* a, __nv_bfloat162* b) {
    __nv_bfloat162 two = __float2bfloat162_rn(2.0f);
    b[threadIdx.x] = __hfma2(a[threadIdx.x], two, b[threadIdx.x]);
}
