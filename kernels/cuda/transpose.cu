// A matrix transpose through a tile in shared memory.

// Rows that a block of TILE x STEP threads handles at a time. Fewer threads than
// elements in the tile give each thread several independent loads in flight.
constexpr unsigned int STEP = 8;

// out[c][r] = in[r][c]. Blocks are TILE x STEP threads, and the grid covers the
// matrix with tiles: ceil(columns / TILE) x ceil(rows / TILE).
//
// Both global accesses run along rows, so neighbouring threads touch neighbouring
// addresses; the turn happens in shared memory.
template <typename T, unsigned TILE>
__global__ void __launch_bounds__(TILE * STEP)
    transpose(const T* in, T* out, unsigned rows, unsigned columns) {
    static_assert(TILE % STEP == 0, "a tile is a whole number of steps");
    // The extra column shifts each row by one element; without it, the reads of a
    // column would fall on the same few banks and queue up.
    __shared__ T tile[TILE][TILE + 1];

    const unsigned long long left = (unsigned long long)blockIdx.x * TILE;
    const unsigned long long top = (unsigned long long)blockIdx.y * TILE;

    for (unsigned int y = threadIdx.y; y < TILE; y += STEP) {
        const unsigned long long row = top + y, column = left + threadIdx.x;
        if (row < rows && column < columns) tile[y][threadIdx.x] = in[row * columns + column];
    }
    __syncthreads();
    for (unsigned int y = threadIdx.y; y < TILE; y += STEP) {
        const unsigned long long row = left + y, column = top + threadIdx.x;
        if (row < columns && column < rows) out[row * rows + column] = tile[threadIdx.x][y];
    }
}

template __global__ decltype(::transpose<float, 32>)(::transpose<float, 32>);
template __global__ decltype(::transpose<double, 16>)(::transpose<double, 16>);
