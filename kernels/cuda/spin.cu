// Kernels to tell stories about waiting with: two that stay until they are released,
// one that releases the first, and one that has to get past them.

#include <kernel_registry.cuh>

// Stays until `flag` is not zero, or until the host ends it. Any grid will do, so that it
// can hold as much of the device as the story wants.
__global__ void spin_until_flag(const unsigned int* flag, kernel_registry::Control* control) {
    kernel_registry::Stay stay(control);
    stay.wait_until([=] { return kernel_registry::load(flag) != 0; });
}

// Its blocks wait for each other, `limit_ns` at most, then stay until the host ends them.
__global__ void stay_together(kernel_registry::Control* control, unsigned long long limit_ns) {
    kernel_registry::Stay stay(control);
    if (stay.wait_for_blocks(limit_ns)) stay.wait_until([] { return false; });
}

// Sets a flag from the device, after everything this thread wrote earlier. For one thread.
__global__ void set_flag(unsigned int* flag, unsigned int value) {
    __threadfence_system();
    kernel_registry::store(flag, value);
}

// Counts one more: the smallest sign that a launch took place. For one thread.
__global__ void touch(unsigned int* out) { *out += 1; }
