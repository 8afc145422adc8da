//! The `#[warmup]` functions that run, and the threads that they have started. A warm-up of the same context there waits for the function,
//! which may wait for the thread.
//!
//! Linux tells nobody which thread has started another one. But a thread begins with the timer slack of the one that starts it: how late its
//! sleeps may end, 50 microseconds as a rule. So each function runs with some nanoseconds more, and its threads have as many.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::driver::ContextId;
use crate::lock::lock;

/// A function that runs.
struct Running {
    number: u32,
    context: ContextId,
    path: &'static str,
    /// The timer slack of its thread, and of those that it starts. 0 if the system has none.
    slack: c_int,
    /// The function inside of which this one's warm-up began.
    within: Option<u32>,
}

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

thread_local! {
    /// The function that this thread runs.
    static OWN: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Runs a function in this thread.
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
    // The warming thread began in the one that called for the warm-up.
    let within = innermost(&lock(&RUNNING)).map(|running| running.number);
    let former = system::slack();
    let slack = mark(number);
    lock(&RUNNING).push(Running { number, context, path, slack, within });
    OWN.set(Some(number));
    let _leave = Leave { number, former };
    function()
}

/// The function that runs in this context, if this thread runs it, or it has started this thread. It must not wait for the warm-up, which
/// waits for it.
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

/// The function that this thread runs, or that has started it.
fn innermost(running: &[Running]) -> Option<&Running> {
    let own = OWN.get();
    let is_own = |function: &&Running| Some(function.number) == own;
    let slack = if own.is_none() && !running.is_empty() { system::slack() } else { 0 };
    let has_started = |function: &&Running| slack > 0 && function.slack == slack;
    running.iter().find(is_own).or_else(|| running.iter().find(has_started))
}

/// Sets the timer slack of this thread to one that no other function has, and returns it, or 0 if the system refuses.
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

    /// The timer slack of this thread in nanoseconds, or 0.
    pub(super) fn slack() -> c_int {
        // SAFETY: the system returns a number of this thread, or an error, which is negative.
        unsafe { prctl(GET, NONE, NONE, NONE, NONE) }.max(0)
    }

    /// Sets it. With 0 it is as when the thread began.
    pub(super) fn set(nanoseconds: c_int) {
        // SAFETY: it changes how late sleeps of this thread may end. If the system refuses, there is no mark.
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
