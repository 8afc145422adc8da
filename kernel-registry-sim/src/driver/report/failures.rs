//! Writes why contexts have failed. A thread writes the reason when a call returns the error to that thread. So the
//! reason is in the output of the test that launched the kernel, and of other tests that fail because of it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use kernel_registry_format::Printable;

use super::texts::{Launcher, TIMEOUT};
use crate::driver::result::{Answer, Code};
use crate::driver::watched;

thread_local! {
    /// The failures that this thread has written.
    static WRITTEN: RefCell<Vec<Arc<Failure>>> = const { RefCell::new(Vec::new()) };
}

/// The failure of one context, or of all contexts.
pub(crate) struct Failure {
    pub(crate) code: Code,
    words: String,
    /// The thread that submitted the failed work.
    launcher: Launcher,
    /// The name of that thread, which may have ended when another thread writes the failure.
    name: Option<String>,
    since: Instant,
    /// Whether any thread has written the failure.
    written: AtomicBool,
}

/// Writes a line to standard error. A test harness captures the line for the test of the calling thread.
pub(crate) fn report(words: &str) {
    eprintln!("simulated CUDA driver: {}", Printable(words));
}

/// Returns `CUDA_ERROR_NOT_SUPPORTED`, and reports that `what` is not simulated.
pub(crate) fn not_simulated<T>(what: &str) -> Answer<T> {
    not_supported(&format!("{what} is not simulated"))
}

/// Returns `CUDA_ERROR_NOT_SUPPORTED`, and reports the reason once in each thread, because a test harness runs each
/// test in its own thread.
pub(crate) fn not_supported<T>(why: &str) -> Answer<T> {
    thread_local! {
        static SAID: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }
    if SAID.try_with(|said| said.borrow_mut().insert(why.to_owned())).unwrap_or(true) {
        report(&format!("{why}, and returns CUDA_ERROR_NOT_SUPPORTED"));
    }
    Err(Code::NOT_SUPPORTED)
}

/// Writes a line to standard error that a test harness does not capture. Otherwise the line would be lost if the test
/// never ends.
pub(crate) fn report_at_once(words: &str) {
    let _ = io::stderr().write_all(format!("simulated CUDA driver: {}\n", Printable(words)).as_bytes());
}

impl Failure {
    pub(crate) fn new(code: Code, words: &str, launcher: Launcher) -> Arc<Self> {
        // A test harness does not capture the output of the library that `cargo kernels sim` loads.
        let at_once = cfg!(feature = "export");
        if at_once {
            report(words);
        }
        watched::set(watched::FAILED, !at_once);
        // The name is read now, because the thread may have ended when another thread writes the failure.
        let (words, name) = (words.to_owned(), launcher.name());
        Arc::new(Failure { code, words, launcher, name, since: Instant::now(), written: at_once.into() })
    }

    /// Writes the failure, unless the calling thread has done so before.
    pub(crate) fn write(self: &Arc<Self>) {
        let is_new = WRITTEN.try_with(|written| {
            let mut written = written.borrow_mut();
            let is_new = !written.iter().any(|other| Arc::ptr_eq(other, self));
            if is_new {
                written.push(self.clone());
            }
            is_new
        });
        if !is_new.unwrap_or(false) {
            return;
        }
        self.written.store(true, Ordering::Relaxed);
        match self.name.as_ref().filter(|_| !self.launcher.is_current()) {
            Some(name) => report(&format!("{}; launched by thread `{name}`", self.words)),
            None => report(&self.words),
        }
    }

    /// Writes the failure if no thread has written it for a long time. Returns whether it still has to be written.
    pub(crate) fn write_old(&self) -> bool {
        let is_old = self.since.elapsed() > TIMEOUT;
        if is_old && !self.written.swap(true, Ordering::Relaxed) {
            report_at_once(&self.words);
        }
        !self.written.load(Ordering::Relaxed)
    }
}
