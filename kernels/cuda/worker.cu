// A persistent worker: one launch that stays and takes its work from a queue in
// mapped host memory, so that a task costs no launch.

#include "deadline.cuh"

// y = a * x + y. Two pointers, then two four-byte fields: no padding.
struct Task {
    const float* x;
    float* y;
    float a;
    unsigned int n;
};

enum Status : unsigned int { RUNNING = 0, STOPPED = 1, GAVE_UP = 2 };

// Each word has one writer. `published` and `finished` only grow, and wrap around.
struct Queue {
    unsigned int published;  // host: tasks written so far
    unsigned int stop;       // host: not zero to end the worker once the queue is empty
    unsigned int finished;   // worker: tasks done so far
    unsigned int status;     // worker: a Status; the host sets RUNNING before the launch
};

// Waits for the task after `done` and says whether to go on with it (RUNNING).
static __device__ Status wait_for_task(const volatile Queue* queue, unsigned int done,
                                       const Deadline& deadline) {
    while (true) {
        // Read before `published`: tasks that were published before the stop was
        // asked for are still seen.
        const bool stop = queue->stop != 0;
        __threadfence_system();
        if (deadline.passed()) return GAVE_UP;
        if (queue->published != done) break;
        if (stop) return STOPPED;
    }
    // Nothing of the task may be read before its publication was seen.
    __threadfence_system();
    return RUNNING;
}

// One block, of any number of threads; any other leaves at once. The host fills `tasks[published % capacity]`,
// then publishes it, and never runs more than `capacity` tasks ahead of `finished`;
// `capacity` is a power of two, so that the index survives the wrap-around.
//
// Gives up `limit_ns` after its start, whatever the host does: a worker that nobody
// stops would hold the device, and every call that waits for it, for ever. A second
// launch goes on where the first one ended.
__global__ void worker(volatile Queue* queue, const Task* tasks, unsigned int capacity,
                       unsigned long long limit_ns) {
    __shared__ Task task;
    __shared__ Status next;
    if (blockIdx.x != 0) return;

    const Deadline deadline(limit_ns);
    unsigned int done = queue->finished;

    while (true) {
        if (threadIdx.x == 0) {
            next = wait_for_task(queue, done, deadline);
            if (next == RUNNING) {
                // Volatile, because the slot may still be cached from its last use.
                const volatile Task* slot = &tasks[done % capacity];
                task.x = slot->x;
                task.y = slot->y;
                task.a = slot->a;
                task.n = slot->n;
            }
        }
        __syncthreads();
        if (next != RUNNING) break;

        for (unsigned long long i = threadIdx.x; i < task.n; i += blockDim.x) {
            task.y[i] = task.a * task.x[i] + task.y[i];
        }

        // The results must be visible to the host before the count that announces
        // them, and no thread may still be reading the task when the next one comes.
        __threadfence_system();
        __syncthreads();
        ++done;
        if (threadIdx.x == 0) queue->finished = done;
    }
    if (threadIdx.x == 0) queue->status = next;
}
