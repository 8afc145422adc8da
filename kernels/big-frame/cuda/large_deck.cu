// A kernel with a local frame of 32 KiB, which costs the frame times every thread that
// the device can hold.

constexpr unsigned int SIZE = 8192;

// Shuffles the numbers from 0 to 8191 by each seed and writes the first of them.
//
// The indices are only known at run time, so the deck cannot live in registers: it
// is the frame.
__global__ void shuffle_large(unsigned int n, const unsigned int* seeds, unsigned int* firsts) {
    const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= n) return;

    unsigned int deck[SIZE];
    unsigned int random = seeds[thread];
    deck[0] = 0;
    for (unsigned int i = 1; i < SIZE; ++i) {
        // The constants of Numerical Recipes; the upper half is the random one.
        random = 1664525u * random + 1013904223u;
        const unsigned int j = (random >> 16) % (i + 1);
        deck[i] = i;
        const unsigned int taken = deck[j];
        deck[j] = i;
        deck[i] = taken;
    }
    firsts[thread] = deck[0];
}
