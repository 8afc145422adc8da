//! Finds out whether a thread belongs to a running `#[warmup]` function: whether the thread runs the function, or was
//! started by the function. Such a thread must not warm the function's context. The second warm-up would wait for the
//! function to end, and the function may wait for the thread: a deadlock.
//!
//! Linux does not tell which thread has started a thread. But a new thread inherits the timer slack of the thread that
//! starts it. Timer slack is how late the sleeps of a thread may end, 50 microseconds by default. So each `#[warmup]`
//! function runs with its own timer slack, some nanoseconds above the default, and the function's threads are recognized by
//! that value.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::driver::ContextId;
use crate::lock::lock;

/// A `#[warmup]` function that is running.
struct Running {
    number: u32,
    context: ContextId,
    path: &'static str,
    /// The timer slack of the function's thread, and of the threads that the function starts. 0 if the operating system has
    /// no timer slack.
    slack: c_int,
    /// The number of the function that started this function's warm-up, if a function did.
    within: Option<u32>,
}

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

thread_local! {
    /// The number of the function that this thread runs.
    static OWN: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Runs a `#[warmup]` function in this thread, and keeps it in `RUNNING` while it runs.
pub(super) fn run<T>(context: ContextId, path: &'static str, function: impl FnOnce() -> T) -> T {
    struct Leave {
        number: u32,
        former: c_int,
    }
    impl Drop for Leave {
        fn drop(&mut self) {
            OWN.set(None);
            system::set(self.former);
            lock(&RUNNING).retain(|running| running.number != self.number);
        }
    }
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // The warming thread was started by the thread that called `warm`, so it has that thread's timer slack.
    let within = innermost(&lock(&RUNNING)).map(|running| running.number);
    let former = system::slack();
    let slack = mark(number);
    lock(&RUNNING).push(Running { number, context, path, slack, within });
    OWN.set(Some(number));
    let _leave = Leave { number, former };
    function()
}

/// Returns the path of the function that runs in this context, if this thread runs that function or was started by it.
/// Such a thread must not wait for the warm-up, which waits for the function.
pub(crate) fn running_for(context: ContextId) -> Option<&'static str> {
    let running = lock(&RUNNING);
    let mut next = innermost(&running);
    while let Some(function) = next {
        if function.context == context {
            return Some(function.path);
        }
        next = running.iter().find(|other| Some(other.number) == function.within);
    }
    None
}

/// Returns the function that this thread runs, or that has started this thread.
fn innermost(running: &[Running]) -> Option<&Running> {
    let own = OWN.get();
    let is_own = |function: &&Running| Some(function.number) == own;
    let slack = if own.is_none() && !running.is_empty() { system::slack() } else { 0 };
    let has_started = |function: &&Running| slack > 0 && function.slack == slack;
    running.iter().find(is_own).or_else(|| running.iter().find(has_started))
}

/// Sets the timer slack of this thread to a value that no other function has. Returns that value, or 0 if the operating
/// system refuses.
fn mark(number: u32) -> c_int {
    const USUAL: c_int = 50_000;
    let slack = USUAL + 1 + (number % 10_000).cast_signed();
    system::set(slack);
    if system::slack() == slack { slack } else { 0 }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use std::ffi::{c_int, c_ulong};

    const SET: c_int = 29;
    const GET: c_int = 30;
    const NONE: c_ulong = 0;

    unsafe extern "C" {
        fn prctl(option: c_int, ...) -> c_int;
    }

    /// Returns the timer slack of this thread in nanoseconds, or 0.
    pub(super) fn slack() -> c_int {
        // SAFETY: the operating system returns a number of this thread, or an error, which is negative.
        unsafe { prctl(GET, NONE, NONE, NONE, NONE) }.max(0)
    }

    /// Sets the timer slack of this thread. 0 restores the slack that the thread began with.
    pub(super) fn set(nanoseconds: c_int) {
        // SAFETY: the call only changes how late sleeps of this thread may end. A refusal is noticed by `mark`.
        unsafe { prctl(SET, c_ulong::from(nanoseconds.unsigned_abs()), NONE, NONE, NONE) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use std::ffi::c_int;

    pub(super) fn slack() -> c_int {
        0
    }

    pub(super) fn set(_: c_int) {}
}
