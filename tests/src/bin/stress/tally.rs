//! Counts the operations of all threads, and records what each thread does and which operations failed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The counts and the failures, shared by all threads.
pub(crate) struct Tally {
    /// The current operation of each thread, or `None` once the thread has ended.
    at_work: Vec<Mutex<Option<Doing>>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    failures: Mutex<Vec<String>>,
}

/// An operation, the number of its context, and when it began.
type Doing = (&'static str, usize, Instant);

/// When dropped, reports a panic of a thread, and marks the thread as ended.
pub(crate) struct Panics<'a> {
    tally: &'a Tally,
    thread: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tally {
    pub(crate) fn new(threads: usize) -> Self {
        let at_work = (0..threads).map(|_| Mutex::new(Some(("begins", 0, Instant::now())))).collect();
        Tally { at_work, counts: Mutex::default(), failures: Mutex::default() }
    }

    /// Records that a thread begins an operation in this context.
    pub(crate) fn begin(&self, thread: usize, operation: &'static str, slot: usize) {
        *lock(&self.at_work[thread]) = Some((operation, slot, Instant::now()));
    }

    /// Counts an operation that ended as expected.
    pub(crate) fn count(&self, operation: &'static str) {
        *lock(&self.counts).entry(operation).or_default() += 1;
    }

    pub(crate) fn fail(&self, thread: usize, error: impl fmt::Display) {
        let doing = *lock(&self.at_work[thread]);
        let (operation, slot, _) = doing.unwrap_or(("ended", 0, Instant::now()));
        let words = format!("FAIL thread {thread}, context {slot}, {operation}: {error}");
        println!("{words}");
        lock(&self.failures).push(words);
    }

    pub(crate) fn has_failed(&self) -> bool {
        !lock(&self.failures).is_empty()
    }

    pub(crate) fn is_at_work(&self) -> bool {
        self.at_work.iter().any(|doing| lock(doing).is_some())
    }

    pub(crate) fn panics(&self, thread: usize) -> Panics<'_> {
        Panics { tally: self, thread }
    }

    /// Aborts the process if an operation takes longer than this, after printing the operation of each
    /// thread.
    pub(crate) fn watch(&self, longest: Duration) {
        let all: Vec<_> = self.at_work.iter().map(|doing| *lock(doing)).collect();
        if !all.iter().flatten().any(|(_, _, since)| since.elapsed() > longest) {
            return;
        }
        println!("FAIL an operation has not ended after {longest:?}");
        for (thread, (operation, slot, since)) in
            all.iter().enumerate().filter_map(|(thread, doing)| Some((thread, (*doing)?)))
        {
            println!("thread {thread}, context {slot}: {operation} for {:.1?}", since.elapsed());
        }
        std::process::abort();
    }

    pub(crate) fn summary(&self, elapsed: Duration) -> String {
        let counts = lock(&self.counts);
        let mut lines: Vec<_> = counts
            .iter()
            .map(|(operation, count)| {
                format!(
                    "{operation:<28} {count:>10} {:>10.1} a second",
                    *count as f64 / elapsed.as_secs_f64()
                )
            })
            .collect();
        lines.push(format!("{:.1?}, {} failures", elapsed, lock(&self.failures).len()));
        lines.join("\n")
    }
}

impl Drop for Panics<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.tally.fail(self.thread, "it panicked");
        }
        *lock(&self.tally.at_work[self.thread]) = None;
    }
}
