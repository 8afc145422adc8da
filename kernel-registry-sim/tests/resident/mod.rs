//! A resident kernel, which runs until it is released, or its time is over.
#![allow(dead_code)] // Each test uses what it needs.

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
    // SAFETY: these are four bytes of memory of the host that is never freed, and the device accesses them as a whole too.
    unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(address)) }
}

impl Resident {
    /// Starts one in the current context. It ends after that time at the latest.
    pub fn start(longest: Duration) -> Self {
        let await_flag = kernel("await");
        Self::on(longest, |stream, flag| launch(await_flag, stream, &[flag as u64]))
    }

    /// Occupies a stream until the word at the flag is 1.
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

    /// Whether its time was over before it was released.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Releases it, and waits until it has ended.
    pub fn release(self) {
        word(self.flag).store(1, Ordering::SeqCst);
        self.timer.thread().unpark();
        self.timer.join().unwrap();
        ok("cuStreamSynchronize", &[self.stream]);
    }
}

/// Whether an operation waits for a resident kernel. `expected` says how long to look.
pub fn waits(expected: bool, operation: impl FnOnce()) -> bool {
    has_to_wait(Resident::start(longest(expected)), operation)
}

/// Whether an operation waits for a stream that waits for a word. `expected` says how long to look.
pub fn waits_for_word(expected: bool, operation: impl FnOnce()) -> bool {
    let wait = |stream, flag| ok("cuStreamWaitValue32_v2", &[stream, flag, 1, 1]);
    has_to_wait(Resident::on(longest(expected), wait), operation)
}

/// The time limit: long if no wait is expected, because the machine may be slow.
fn longest(expected: bool) -> Duration {
    if expected { Duration::from_millis(200) } else { Duration::from_secs(5) }
}

fn has_to_wait(resident: Resident, operation: impl FnOnce()) -> bool {
    operation();
    let waited = resident.is_over();
    resident.release();
    waited
}
