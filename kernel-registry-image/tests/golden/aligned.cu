// The offset of `wide` among the arguments is different in PTX and for each architecture.

struct alignas(128) Wide {
    float values[32];
};

__global__ void spread(unsigned n, const Wide wide, float* x) {
    x[n] = wide.values[n % 32];
}
