//! Simulated time. It runs while the worker thread computes, and in its short pauses. It stands still while that thread is not
//! scheduled, sleeps for a test, or is stopped with the process. So on a busy machine a device is slow, and its time is too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Nanoseconds of pauses.
static PAUSED: AtomicU64 = AtomicU64::new(0);

/// The time when the worker thread last asked for it.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// The time. Only the worker thread asks for it.
pub(crate) fn now() -> Duration {
    let now = computed() + Duration::from_nanos(PAUSED.load(Ordering::Relaxed));
    LATEST.store(now.as_nanos() as u64, Ordering::Relaxed);
    now
}

/// The time that the worker thread last read, for all other threads.
pub(crate) fn latest() -> Duration {
    Duration::from_nanos(LATEST.load(Ordering::Relaxed))
}

/// Counts a pause of the worker thread.
pub(crate) fn add_pause(pause: Duration) {
    PAUSED.fetch_add(pause.as_nanos() as u64, Ordering::Relaxed);
    now();
}

/// How long this thread has computed.
fn computed() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
