//! Why contexts have failed. A thread writes it when a call returns the error to it. So it is in the output of
//! the test that launched the kernel, and of others that fail because of it.

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
    /// The failures that the thread has written.
    static WRITTEN: RefCell<Vec<Arc<Failure>>> = const { RefCell::new(Vec::new()) };
}

/// A failure, of a context or of all.
pub(crate) struct Failure {
    pub(crate) code: Code,
    words: String,
    /// The thread that submitted what failed, and its name.
    launcher: Launcher,
    name: Option<String>,
    since: Instant,
    /// Whether any thread has written it.
    written: AtomicBool,
}

/// Writes a line to standard error, where a test harness captures it in the thread's name.
pub(crate) fn report(words: &str) {
    eprintln!("simulated CUDA driver: {}", Printable(words));
}

/// Returns `CUDA_ERROR_NOT_SUPPORTED`, and reports that `what` is not simulated.
pub(crate) fn not_simulated<T>(what: &str) -> Answer<T> {
    not_supported(&format!("{what} is not simulated"))
}

/// Returns `CUDA_ERROR_NOT_SUPPORTED`, and reports why, once in each thread: a test harness has one for each test.
pub(crate) fn not_supported<T>(why: &str) -> Answer<T> {
    thread_local! {
        static SAID: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }
    if SAID.try_with(|said| said.borrow_mut().insert(why.to_owned())).unwrap_or(true) {
        report(&format!("{why}, and returns CUDA_ERROR_NOT_SUPPORTED"));
    }
    Err(Code::NOT_SUPPORTED)
}

/// Writes a line to standard error, past a test harness, which shows nothing of a test that does not end.
pub(crate) fn report_at_once(words: &str) {
    let _ = io::stderr().write_all(format!("simulated CUDA driver: {}\n", Printable(words)).as_bytes());
}

impl Failure {
    pub(crate) fn new(code: Code, words: &str, launcher: Launcher) -> Arc<Self> {
        // A test harness does not capture the output of a library that was opened as a file.
        let at_once = cfg!(feature = "export");
        if at_once {
            report(words);
        }
        watched::set(watched::FAILED, !at_once);
        // The thread may have ended when another one writes this.
        let (words, name) = (words.to_owned(), launcher.name());
        Arc::new(Failure { code, words, launcher, name, since: Instant::now(), written: at_once.into() })
    }

    /// Writes the failure, unless the calling thread already has.
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

    /// Writes the failure if no thread has for a long time. Returns whether it still has to be written.
    pub(crate) fn write_old(&self) -> bool {
        let is_old = self.since.elapsed() > TIMEOUT;
        if is_old && !self.written.swap(true, Ordering::Relaxed) {
            report_at_once(&self.words);
        }
        !self.written.load(Ordering::Relaxed)
    }
}
