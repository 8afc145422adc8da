// A persistent worker: one launch that stays and takes its work from a queue in
// mapped host memory, so that a task costs no launch.

#include <kernel_registry.cuh>

// y = a * x + y. Two pointers, then two four-byte fields: no padding.
struct Task {
    const float* x;
    float* y;
    float a;
    unsigned int n;
};

// Any number of blocks and threads. Each block has a lane of the queue.
__global__ void worker(kernel_registry::Control* control, kernel_registry::Queue<Task>* queue) {
    __shared__ Task task;
    kernel_registry::Stay stay(control);
    kernel_registry::Consumer<Task> tasks(stay, queue);

    while (tasks.next(&task)) {
        for (unsigned long long i = threadIdx.x; i < task.n; i += blockDim.x) {
            task.y[i] = task.a * task.x[i] + task.y[i];
        }
    }
}
