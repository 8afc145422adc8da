// Kernels to be declared wrongly: each type there is, overloads, namespaces, launch bounds.

typedef unsigned char u8;
struct Pair {
    float a;
    unsigned int b;
};
struct __align__(16) Wide {
    float a[4];
};
enum Mode : unsigned int { FAST, SAFE };

__global__ void integers(bool a, char b, signed char c, unsigned char d, short e, unsigned short f, int g,
                         unsigned int h, long i, unsigned long j, long long k, unsigned long long l) {}
__global__ void floats(float a, double b) {}
__global__ void pointers(const float* in, float* out, void* any, const int* numbers, Pair* pairs, float** rows) {}
__global__ void structs(Pair pair, Wide wide, Mode mode) {}
__global__ void one(unsigned int n) {}
__global__ void __launch_bounds__(128) bounded(unsigned int n) {}

namespace deep {
namespace er {
__global__ void inside(unsigned int n) {}
}
}

namespace {
__global__ void hidden(unsigned int n) {}
}
extern "C" __device__ void* keep_hidden = (void*)&hidden;

__global__ void twice(float* x) {}
__global__ void twice(double* x) {}

template <typename T, unsigned N>
__global__ void instance(T* x) {}
template __global__ void instance<float, 32>(float*);
template __global__ void instance<double, 64>(double*);

extern "C" __global__ void plain(unsigned int n, const float* x, Pair pair) {}
