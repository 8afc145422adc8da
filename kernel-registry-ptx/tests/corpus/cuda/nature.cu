// Simulation: particles, grids, random numbers.

extern "C" __global__ void bodies(int n, const float4* place, float3* force) {
    __shared__ float4 tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 own = place[i];
    float3 sum = make_float3(0, 0, 0);
    for (int first = 0; first < n; first += blockDim.x) {
        tile[threadIdx.x] = place[first + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < blockDim.x; j++) {
            float x = tile[j].x - own.x, y = tile[j].y - own.y, z = tile[j].z - own.z;
            float inverse = rsqrtf(x * x + y * y + z * z + 0.01f);
            float scale = tile[j].w * inverse * inverse * inverse;
            sum.x += x * scale;
            sum.y += y * scale;
            sum.z += z * scale;
        }
        __syncthreads();
    }
    force[i] = sum;
}

extern "C" __global__ void mandelbrot(int width, int height, unsigned short* out) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height) return;
    double a = -2.0 + 3.0 * column / width, b = -1.5 + 3.0 * row / height, x = 0, y = 0;
    unsigned short steps = 0;
    while (steps < 200 && x * x + y * y < 4) {
        double next = __dadd_rn(__dsub_rn(__dmul_rn(x, x), __dmul_rn(y, y)), a);
        y = __dadd_rn(__dmul_rn(__dmul_rn(2.0, x), y), b);
        x = next;
        steps++;
    }
    out[row * width + column] = steps;
}

__constant__ float weights[5] = {0.5f, 0.125f, 0.125f, 0.125f, 0.125f};

extern "C" __global__ void stencil(int width, int height, const float* in, float* out) {
    __shared__ float tile[10][34];
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    auto at = [&](int row, int column) {
        row = min(max(row, 0), height - 1);
        column = min(max(column, 0), width - 1);
        return in[row * width + column];
    };
    tile[threadIdx.y + 1][threadIdx.x + 1] = at(row, column);
    if (threadIdx.x == 0) tile[threadIdx.y + 1][0] = at(row, column - 1);
    if (threadIdx.x == 31) tile[threadIdx.y + 1][33] = at(row, column + 1);
    if (threadIdx.y == 0) tile[0][threadIdx.x + 1] = at(row - 1, column);
    if (threadIdx.y == 7) tile[9][threadIdx.x + 1] = at(row + 1, column);
    __syncthreads();
    if (column >= width || row >= height) return;
    int x = threadIdx.x + 1, y = threadIdx.y + 1;
    out[row * width + column] = weights[0] * tile[y][x] + weights[1] * tile[y - 1][x] + weights[2] * tile[y + 1][x]
        + weights[3] * tile[y][x - 1] + weights[4] * tile[y][x + 1];
}

struct Random {
    unsigned long long state;
    __device__ unsigned int next() {
        unsigned long long old = state;
        state = old * 6364136223846793005ull + 1442695040888963407ull;
        unsigned int mixed = ((old >> 18) ^ old) >> 27, by = old >> 59;
        return (mixed >> by) | (mixed << (-by & 31));
    }
};

extern "C" __global__ void random_numbers(unsigned long long seed, int count, unsigned int* out, float* uniform) {
    Random random{seed + threadIdx.x};
    unsigned int all = 0;
    for (int i = 0; i < count; i++) all ^= random.next();
    out[threadIdx.x] = all;
    uniform[threadIdx.x] = random.next() * 2.3283064e-10f;
}

extern "C" __global__ void inside_circle(int count, unsigned long long* inside) {
    Random random{blockIdx.x * blockDim.x + threadIdx.x};
    int found = 0;
    for (int i = 0; i < count; i++) {
        long long x = random.next() >> 8, y = random.next() >> 8;
        found += x * x + y * y < (1ll << 48);
    }
    atomicAdd(inside, (unsigned long long)found);
}
