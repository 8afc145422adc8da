// What the language has: calls, recursion, tables, objects, memory of every kind, output.

// NVRTC brings its own.
#ifndef __CUDACC_RTC__
#include <cassert>
#include <cstdio>
#endif

__device__ __noinline__ unsigned int fibonacci(unsigned int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__device__ bool odd(unsigned int n);
__device__ __noinline__ bool even(unsigned int n) { return n == 0 || odd(n - 1); }
__device__ __noinline__ bool odd(unsigned int n) { return n != 0 && even(n - 1); }

extern "C" __global__ void recursion(unsigned int* out) {
    out[2 * threadIdx.x] = fibonacci(threadIdx.x % 12);
    out[2 * threadIdx.x + 1] = even(threadIdx.x);
}

__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int negated(int x) { return -x; }
__device__ int (*const table[])(int) = {twice, square, negated};

extern "C" __global__ void pointers(const int* which, int* out) { out[threadIdx.x] = table[which[threadIdx.x]](threadIdx.x); }

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float side;
    __device__ explicit Square(float side) : side(side) {}
    __device__ float area() const override { return side * side; }
};
struct Rectangle : Shape {
    float a, b;
    __device__ Rectangle(float a, float b) : a(a), b(b) {}
    __device__ float area() const override { return a * b; }
};

extern "C" __global__ void objects(float* out) {
    Shape* shape;
    if (threadIdx.x % 3 == 0) {
        shape = new Square(threadIdx.x);
    } else {
        shape = new Rectangle(threadIdx.x, 2);
    }
    out[threadIdx.x] = shape->area();
    delete shape;
}

extern "C" __global__ void machine(int n, const unsigned char* code, int* out) {
    int stack[8], depth = 0, value = threadIdx.x;
    for (int i = 0; i < n; i++) {
        switch (code[i]) {
        case 0: value++; break;
        case 1: value *= 3; break;
        case 2: stack[depth++ & 7] = value; break;
        case 3: value += stack[--depth & 7]; break;
        case 4: value ^= 0x55; break;
        case 5: value = -value; break;
        case 6: value >>= 1; break;
        case 7: value = value % 17; break;
        default: value = 0;
        }
    }
    out[threadIdx.x] = value;
}

struct Settings {
    char tag;
    double scale;
    short offsets[3];
    struct { int low, high; } range;
};

__constant__ int limits[4] = {3, 1, 4, 1};
__device__ int total = 7;
__device__ int* where = &total;

extern "C" __global__ void settings(Settings s, double* out) {
    int i = threadIdx.x;
    double value = s.scale * s.offsets[i % 3] + s.tag;
    out[i] = fmin(fmax(value, (double)s.range.low), (double)s.range.high) + limits[i % 4];
    atomicAdd(where, i);
}

extern "C" __global__ void read_total(int* out) { *out = total; }

extern "C" __global__ void prints(int n, const char* text) {
    if (threadIdx.x >= 2) return;
    int left = printf("%d %5d|%-5d|%05d %u %x %X %#x %o\n", n, n, n, n, 4000000000u, 255, 255, 255, 8);
    printf("%f %.2f %10.3f %e %g %c %s %%\n", 1.5, 2.25f, 3.125, 12345.678, 0.0001, 'x', "text");
    printf("%lld %llu %hd %p|%*d|%.3s|%s %d\n", -5000000000ll, 5000000000ull, (short)-3, (void*)16, 4, 42, "abcdef", text, left);
}

struct Node {
    Node* next;
    int value;
};

extern "C" __global__ void list(int n, int* out) {
    Node* first = nullptr;
    for (int i = 0; i < n; i++) {
        Node* node = static_cast<Node*>(malloc(sizeof(Node)));
        assert(node != nullptr);
        node->next = first;
        node->value = i * threadIdx.x;
        first = node;
    }
    int sum = 0;
    while (first) {
        sum += first->value;
        Node* next = first->next;
        free(first);
        first = next;
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void checked(int n) { assert(threadIdx.x < n && "a thread too many"); }

extern "C" __global__ void clocks(long long* out) {
    long long begun = clock64();
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    __nanosleep(100);
    out[0] = clock64() - begun;
    out[1] = time != 0;
    out[2] = clock() != 0;
}
