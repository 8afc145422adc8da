// A kernel that launches another, beside one with a large frame.

extern "C" __global__ void child(unsigned int* x) { x[0] = 1; }

extern "C" __global__ void large(unsigned int* x, unsigned int n) {
    unsigned int own[3072];
    for (int i = 0; i < 8; i++) own[(n * 37 + i * x[2]) % 3072] = x[1] + i;
    x[0] = own[n % 3072];
}

extern "C" __global__ void parent(unsigned int* x) { child<<<1, 1>>>(x); }
