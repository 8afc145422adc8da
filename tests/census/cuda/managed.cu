// A module with managed memory, which the driver loads at once and whole.

#include "done.cuh"

__managed__ unsigned int managed;

__global__ void uses_managed(volatile unsigned int* done, unsigned int n) {
    managed = n;
    tell(done);
}
