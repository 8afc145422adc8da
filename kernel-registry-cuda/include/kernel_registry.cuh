// For kernels that stay on the device: when to end, whether all blocks are there,
// waiting that ends, and a queue of tasks for each block.
//
//     #include <kernel_registry.cuh>
//
//     __global__ void worker(kernel_registry::Control* control, kernel_registry::Queue<Task>* queue) {
//         __shared__ Task task;
//         kernel_registry::Stay stay(control);
//         kernel_registry::Consumer<Task> tasks(stay, queue);
//         while (tasks.next(&task)) work(task);
//     }
//
// `Control` and `Queue` of the Rust crate kernel-registry are the host's side. Both lie in
// mapped host memory. Nothing here uses atomics, which may not work across the bus.
//
// Member functions are for all threads of a block together, like `__syncthreads()`: never
// behind a condition that differs between its threads. Constructors are for all threads, too.

#ifndef KERNEL_REGISTRY_CUH
#define KERNEL_REGISTRY_CUH

namespace kernel_registry {

// The version of the structures below. The host writes its own.
enum : unsigned int { LAYOUT = 2 };

// Reads a word that the host or another kernel writes meanwhile. What they wrote before
// it is there after the next `__threadfence_system()`; `wait_until` has one. An acquiring
// read would need none, but empties the SM's L1 cache at every look, which other kernels use.
template <typename T>
inline __device__ T load(const T* word) {
    return *(const volatile T*)word;
}

// Writes a word that the host or another kernel reads meanwhile. `__threadfence_system()`
// comes before it if it announces other data.
template <typename T>
inline __device__ void store(T* word, T value) {
    *(volatile T*)word = value;
}

// A point in time.
class Deadline {
  public:
    __device__ explicit Deadline(unsigned long long limit_ns) : start(now()), limit(limit_ns) {}

    // Compares an elapsed time rather than an end, so a huge limit cannot overflow.
    __device__ bool passed() const { return now() - start >= limit; }

  private:
    // Nanoseconds, from the one clock that all SMs share. `clock64` counts cycles of
    // one SM, whose frequency changes.
    static __device__ unsigned long long now() {
        unsigned long long time;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
        return time;
    }

    unsigned long long start;
    unsigned long long limit;
};

// A pause between two looks, longer each time up to a microsecond, so that many blocks
// that wait leave room on the bus and on their SMs.
class Pause {
  public:
    __device__ Pause() : nanoseconds(32) {}

    __device__ void wait() {
#if __CUDA_ARCH__ >= 700
        __nanosleep(nanoseconds);
        if (nanoseconds < 1024) nanoseconds *= 2;
#endif
        // The compiler must not keep what was read before.
        asm volatile("" ::: "memory");
    }

  private:
    unsigned int nanoseconds;
};

// Why a kernel has to end.
enum class End : unsigned int {
    NOT_YET = 0,
    STOPPED = 1,       // the host stopped it
    LIMIT = 2,         // its time is over
    NO_LIMIT = 3,      // the host has set no limit, and has not said that there is none
    MISSING = 4,       // not all blocks arrived in time
    OTHER_GRID = 5,    // the grid is not the one that the control block was made for
    OTHER_TYPE = 6,    // the host's values in a queue have another size
    OTHER_LAYOUT = 7,  // the host knows another version of this header
    OTHER_LANES = 8,   // a queue has no lane for a block, or lanes for other blocks
};

// Where a block is.
enum class Presence : unsigned int {
    NOWHERE = 0,
    THERE = 1,
    LEFT = 2,
    LATE = 3,  // it came when the kernel had to end
    LATE_AND_LEFT = 4,
};

// The control block of one launch. A `Presence` for each block follows it.
struct alignas(64) Control {
    End end;                      // host, or the first block that finds a reason
    unsigned int layout;          // host
    unsigned int blocks;          // host: the number of blocks in the grid
    unsigned int all_there;       // first block: 1 once all blocks are there
    unsigned long long limit_ns;  // host: 0 if none is set, all ones for a stay without limit
};

// The stay of a block: made first, and left at the end of its scope.
class Stay {
  public:
    __device__ explicit Stay(Control* control)
        : control(control), deadline(load(&control->limit_ns)), arrived(Presence::NOWHERE) {
        if (!is_leader()) return;
        if (!knows_layout()) {
            end_because(End::OTHER_LAYOUT);
            return;
        }
        if (load(&control->blocks) != blocks()) end_because(End::OTHER_GRID);
        if (load(&control->limit_ns) == 0) end_because(End::NO_LIMIT);
        if (block() >= load(&control->blocks)) return;
        arrived = load(&control->end) == End::NOT_YET ? Presence::THERE : Presence::LATE;
        store(presence(block()), arrived);
    }

    __device__ ~Stay() {
        if (arrived == Presence::NOWHERE) return;
        // The reason to end is visible before that.
        __threadfence_system();
        store(presence(block()), arrived == Presence::THERE ? Presence::LEFT : Presence::LATE_AND_LEFT);
    }

    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

    // Whether the kernel may go on. Once it may not, it has to return soon.
    __device__ bool goes_on() { return __syncthreads_and(!is_leader() || reason() == End::NOT_YET); }

    // Waits until the condition holds, and says so; false if the kernel has to end first.
    // One thread asks for all, and reads by `load`. What others wrote before they made the
    // condition true can then be read by all threads.
    template <typename Condition>
    __device__ bool wait_until(Condition condition) {
        return __syncthreads_or(is_leader() && look(condition, End::NOT_YET));
    }

    // Waits until all blocks of the grid have arrived. If one does not within this time, the
    // device has no room for the whole grid: then the kernel has to end, and the result is false.
    //
    // This is no barrier: blocks that arrived may have gone on long ago.
    __device__ bool wait_for_blocks(unsigned long long limit_ns = 1000000000) {
        const Deadline arrival(limit_ns);
        Pause pause;
        while (goes_on()) {
            if (__syncthreads_and(block() == 0 ? sees_its_blocks() : knows_of_all())) {
                if (block() == 0 && is_leader()) store(&control->all_there, 1u);
                return true;
            }
            if (is_leader() && arrival.passed()) end_because(End::MISSING);
            pause.wait();
        }
        return false;
    }

    // The position of this block in the grid, and of this thread in the block.
    static __device__ unsigned int block() {
        return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }
    static __device__ unsigned int thread() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }

    // How many there are.
    static __device__ unsigned int blocks() { return gridDim.x * gridDim.y * gridDim.z; }
    static __device__ unsigned int threads() { return blockDim.x * blockDim.y * blockDim.z; }

    // The thread that reads and writes for its block.
    static __device__ bool is_leader() { return thread() == 0; }

  private:
    template <typename T>
    friend class Consumer;

    __device__ bool knows_layout() const { return load(&control->layout) == LAYOUT; }

    __device__ Presence* presence(unsigned int block) const { return (Presence*)(control + 1) + block; }

    // The first reason stays, unless it was a stop, after which the kernel goes on for a while.
    __device__ void end_because(End why) const {
        const End end = load(&control->end);
        if (end == End::NOT_YET || end == End::STOPPED) store(&control->end, why);
        __threadfence_system();
    }

    // Why the kernel has to end. The first block that knows tells the others, so that one
    // which had to wait for a place does not begin a stay of its own.
    __device__ End reason() const {
        const End end = load(&control->end);
        if (!deadline.passed()) return end;
        if (end == End::NOT_YET) end_because(End::LIMIT);
        return End::LIMIT;
    }

    // Looks until the condition holds, also if the kernel has to end for the reason `despite`.
    template <typename Condition>
    __device__ bool look(Condition condition, End despite) const {
        Pause pause;
        while (true) {
            const End end = reason();
            if (end != End::NOT_YET && end != despite) return false;
            // What was written before the kernel was told to end is seen now.
            if (end != End::NOT_YET) __threadfence_system();
            if (condition()) break;
            if (end != End::NOT_YET) return false;
            pause.wait();
        }
        __threadfence_system();
        return true;
    }

    // In the first block, each thread looks for some blocks.
    __device__ bool sees_its_blocks() const {
        bool all = true;
        for (unsigned int block = thread(); block < blocks(); block += threads()) {
            all = all && load(presence(block)) != Presence::NOWHERE;
        }
        return all;
    }

    __device__ bool knows_of_all() const { return !is_leader() || load(&control->all_there) != 0; }

    Control* control;
    Deadline deadline;
    Presence arrived;  // what the leader wrote
};

// Values that the host pushes. The host chooses the block for each, so that blocks need no
// atomics. A `Lane` for each block follows this, then the slots of all lanes.
template <typename T>
struct alignas(64) Queue {
    static_assert(alignof(T) <= 64, "the slots are aligned to 64 bytes");

    unsigned int lanes;     // host
    unsigned int capacity;  // host: the slots of a lane
    unsigned int size;      // host: bytes of a value
};

// The values for one block.
struct alignas(64) Lane {
    unsigned long long pushed;            // host: how many so far
    alignas(64) unsigned long long done;  // device: how many so far
};

// A block that takes the values of its lane, in their order.
template <typename T>
class Consumer {
  public:
    // Each block of the grid takes from the queue. A later launch goes on where this one ends.
    __device__ Consumer(Stay& stay, Queue<T>* queue) : Consumer(stay, queue, Stay::block(), Stay::blocks()) {}

    // For a kernel in which only some blocks take values. No other block may have this lane.
    __device__ Consumer(Stay& stay, Queue<T>* queue, unsigned int lane)
        : Consumer(stay, queue, lane, load(&queue->lanes)) {}

    Consumer(const Consumer&) = delete;
    Consumer& operator=(const Consumer&) = delete;

    // Marks the last value as done, waits for the next one, and copies it to shared memory.
    // False if the kernel has to end. When the host stops it, that is after all values that
    // were pushed before.
    __device__ bool next(T* value) {
        // All threads are done with the last one.
        __syncthreads();
        done += works;
        if (works && Stay::is_leader()) {
            // The results are visible before the count that announces them.
            __threadfence_system();
            store(&lane->done, done);
        }
        const auto is_pushed = [this] { return load(&lane->pushed) != done; };
        works = __syncthreads_or(Stay::is_leader() && slots && stay.look(is_pushed, End::STOPPED));
        if (works) copy(value);
        return works;
    }

  private:
    __device__ Consumer(Stay& stay, Queue<T>* queue, unsigned int place, unsigned int lanes)
        : stay(stay), lane((Lane*)(queue + 1) + place), slots(nullptr), capacity(0), done(0), works(false) {
        if (!stay.knows_layout()) return;
        const bool is_type = load(&queue->size) == sizeof(T);
        if (is_type && place < lanes && lanes == load(&queue->lanes)) {
            capacity = load(&queue->capacity);
            slots = (const T*)((Lane*)(queue + 1) + lanes) + (unsigned long long)place * capacity;
            done = load(&lane->done);
        } else if (Stay::is_leader()) {
            stay.end_because(is_type ? End::OTHER_LANES : End::OTHER_TYPE);
        }
    }

    // What a value is copied by: four bytes if they are aligned.
    template <bool IS_WORD, typename Unused>
    struct Unit {
        typedef unsigned int Type;
    };
    template <typename Unused>
    struct Unit<false, Unused> {
        typedef unsigned char Type;
    };

    __device__ void copy(T* value) const {
        typedef typename Unit<alignof(T) % 4 == 0, void>::Type Part;
        const Part* from = (const Part*)(slots + done % capacity);
        for (unsigned int i = Stay::thread(); i < sizeof(T) / sizeof(Part); i += Stay::threads()) {
            ((Part*)value)[i] = load(from + i);
        }
        __syncthreads();
    }

    Stay& stay;
    Lane* lane;
    const T* slots;
    unsigned int capacity;
    unsigned long long done;
    bool works;
};

}  // namespace kernel_registry

#endif
