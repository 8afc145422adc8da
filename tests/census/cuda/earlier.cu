// Kernels to launch before others, in an image of their own. Each does what its name says only if `really` is not 0.

__global__ void earlier_nothing(unsigned int really) {}

__global__ void earlier_printf(unsigned int really) {
    if (really) printf("printed by an earlier kernel\n");
}

__global__ void earlier_malloc(unsigned int really) {
    if (really) free(malloc(8));
}

__device__ unsigned int sink;

__global__ void earlier_frame_32k(unsigned int really) {
    unsigned int frame[8192];
    for (unsigned int i = 0; i < really; ++i) frame[i * 7 % 8192] = i;
    for (unsigned int i = 0; i < really; ++i) sink += frame[i * 13 % 8192];
}
