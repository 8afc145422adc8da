// Copies that go on beside the kernel, and accesses of all widths.

#include <cuda_pipeline.h>

extern "C" __global__ void staged(const float4* in, float4* out) {
    __shared__ float4 stage[2][64];
    int rounds = 4;
    __pipeline_memcpy_async(&stage[0][threadIdx.x], &in[threadIdx.x], sizeof(float4));
    __pipeline_commit();
    for (int i = 0; i < rounds; i++) {
        if (i + 1 < rounds) __pipeline_memcpy_async(&stage[(i + 1) % 2][threadIdx.x], &in[(i + 1) * 64 + threadIdx.x], sizeof(float4));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        float4 value = stage[i % 2][63 - threadIdx.x];
        out[i * 64 + threadIdx.x] = make_float4(value.x + 1, value.y, value.z, value.w * 2);
        __syncthreads();
    }
}

extern "C" __global__ void widths(const signed char* a, const unsigned short* b, const short2* c, const uchar4* d, long long* out) {
    int i = threadIdx.x;
    long long value = a[i];
    value = value * 1000 + b[i];
    value = value * 1000 + c[i].x - c[i].y;
    uchar4 bytes = d[i];
    value = value * 1000 + bytes.x + 2 * bytes.y + 3 * bytes.z + 4 * bytes.w;
    out[i] = value;
}

extern "C" __global__ void conversions(const double* in, int* out) {
    double x = in[threadIdx.x];
    int* own = out + 10 * threadIdx.x;
    own[0] = __double2int_rn(x);
    own[1] = __double2int_rd(x);
    own[2] = __double2int_ru(x);
    own[3] = (int)x;
    own[4] = (unsigned char)(int)x;
    own[5] = (signed char)(int)x;
    own[6] = __float2int_rn((float)x);
    own[7] = (int)(long long)x;
    own[8] = (int)rint(x) + (int)floor(x) + (int)ceil(x) + (int)trunc(x);
    own[9] = __float_as_int(__ll2float_rz((long long)x << 20));
}
