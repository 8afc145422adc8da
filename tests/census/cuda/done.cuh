// The sign that a kernel ran, in mapped host memory that the host looks at meanwhile.

#pragma once

__device__ inline void tell(volatile unsigned int* done) {
    *done = 1;
    __threadfence_system();
}
