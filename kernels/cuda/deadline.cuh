// A point in time after which a kernel that waits must stop waiting.
//
// No kernel here waits without one: a kernel that spins for ever cannot be stopped
// from outside, short of ending the process.

#pragma once

class Deadline {
  public:
    __device__ explicit Deadline(unsigned long long limit_ns)
        : start(now()), limit(limit_ns) {}

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
