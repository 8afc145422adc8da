//! Starts a resident kernel, which runs until it is released or its time is over.
#![allow(dead_code)] // Each test uses only some of this.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::device::*;

pub struct Resident {
    stream: usize,
    flag: usize,
    over: Arc<AtomicBool>,
    timer: JoinHandle<()>,
}

fn word(address: usize) -> &'static AtomicU32 {
    // SAFETY: these are four aligned bytes of host memory that is never freed. All accesses to them are atomic.
    unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(address)) }
}

impl Resident {
    /// Starts a resident kernel in the current context. The kernel ends after `longest` at the latest.
    pub fn start(longest: Duration) -> Self {
        let await_flag = kernel("await");
        Self::on(longest, |stream, flag| launch(await_flag, stream, &[flag as u64]))
    }

    /// Occupies a stream until the word at `flag` is 1.
    fn on(longest: Duration, occupy: impl FnOnce(usize, usize)) -> Self {
        let (stream, flag) = (stream(), get("cuMemHostAlloc", &[4, 2]));
        word(flag).store(0, Ordering::SeqCst);
        occupy(stream, flag);
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let timer = thread::spawn(move || {
            thread::park_timeout(longest);
            is_over.store(true, Ordering::SeqCst);
            word(flag).store(1, Ordering::SeqCst);
        });
        Resident { stream, flag, over, timer }
    }

    /// Returns whether the time was over before the kernel was released.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Releases the kernel, and waits until it has ended.
    pub fn release(self) {
        word(self.flag).store(1, Ordering::SeqCst);
        self.timer.thread().unpark();
        self.timer.join().unwrap();
        ok("cuStreamSynchronize", &[self.stream]);
    }
}

/// Returns whether an operation waits for a resident kernel. `expected` decides how long the kernel runs.
pub fn waits(expected: bool, operation: impl FnOnce()) -> bool {
    has_to_wait(Resident::start(longest(expected)), operation)
}

/// Returns whether an operation waits for a stream that waits for a word. `expected` decides how long the stream waits.
pub fn waits_for_word(expected: bool, operation: impl FnOnce()) -> bool {
    let wait = |stream, flag| ok("cuStreamWaitValue32_v2", &[stream, flag, 1, 1]);
    has_to_wait(Resident::on(longest(expected), wait), operation)
}

/// Returns how long the device is occupied: long if no wait is expected, because the machine may be slow.
fn longest(expected: bool) -> Duration {
    if expected { Duration::from_millis(200) } else { Duration::from_secs(5) }
}

fn has_to_wait(resident: Resident, operation: impl FnOnce()) -> bool {
    operation();
    let waited = resident.is_over();
    resident.release();
    waited
}
