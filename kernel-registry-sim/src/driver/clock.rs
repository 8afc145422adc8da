//! Keeps simulated time. The time runs while the worker thread computes, and in its short pauses. The time stands still
//! while that thread is not scheduled, sleeps for a test, or is stopped with the process. So on a busy machine a device
//! is slow, and its clock is slow too.
//!
//! In a chosen order of steps, time goes on with each look at the clock instead, so that it's the same in each run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The sum of the worker thread's pauses, in nanoseconds.
static PAUSED: AtomicU64 = AtomicU64::new(0);

/// The time when the worker thread last read the clock.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// Whether time goes on with each look at the clock.
static IS_SIMULATED: AtomicBool = AtomicBool::new(false);

/// How often the clock was read in this step.
static READS: AtomicU64 = AtomicU64::new(0);

/// Makes time go on with each look at the clock.
pub(crate) fn simulate() {
    IS_SIMULATED.store(true, Ordering::Relaxed);
}

/// Begins a step in a chosen order.
pub(crate) fn begin_step() {
    READS.store(0, Ordering::Relaxed);
}

/// Lets simulated time pass.
pub(crate) fn jump(time: Duration) {
    LATEST.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Returns the simulated time. Only the worker thread may call this.
pub(crate) fn now() -> Duration {
    if IS_SIMULATED.load(Ordering::Relaxed) {
        // Who looks again and again waits: the looks become rarer.
        let reads = READS.fetch_add(1, Ordering::Relaxed) / 16;
        jump(Duration::from_nanos(100 << reads.min(20)));
        return latest();
    }
    let now = computed() + Duration::from_nanos(PAUSED.load(Ordering::Relaxed));
    LATEST.store(now.as_nanos() as u64, Ordering::Relaxed);
    now
}

/// Returns the time that the worker thread last read. Other threads call this.
pub(crate) fn latest() -> Duration {
    Duration::from_nanos(LATEST.load(Ordering::Relaxed))
}

/// Counts a pause of the worker thread.
pub(crate) fn add_pause(pause: Duration) {
    PAUSED.fetch_add(pause.as_nanos() as u64, Ordering::Relaxed);
    now();
}

/// Returns how long the calling thread has computed.
fn computed() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` has room for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
