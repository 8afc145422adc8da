//! Keeps what kernels print until the right thread writes it. The worker thread runs the kernels, but the thread that
//! launched a kernel has to write its text, because a test harness assigns output to the test of the writing thread. A
//! text is kept until its thread calls the driver or waits in it.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use std::{io, mem};

use crate::driver::watched;

/// The thread that launched a kernel, until it ends.
#[derive(Clone, Default)]
pub(crate) struct Launcher(Weak<Thread>);

thread_local! {
    static THIS: Arc<Thread> = Arc::new(thread::current());
}

impl Launcher {
    /// Returns the calling thread as a launcher.
    pub(crate) fn current() -> Self {
        Launcher(THIS.try_with(Arc::downgrade).unwrap_or_default())
    }

    pub(crate) fn is_current(&self) -> bool {
        THIS.try_with(|this| self.0.as_ptr() == Arc::as_ptr(this)).unwrap_or(false)
    }

    /// Returns the name of the thread, if it has a name and has not ended.
    pub(crate) fn name(&self) -> Option<String> {
        self.0.upgrade()?.name().map(str::to_owned)
    }

    fn has_ended(&self) -> bool {
        self.0.strong_count() == 0
    }
}

struct Text {
    launcher: Launcher,
    words: String,
    since: Instant,
}

static TEXTS: Mutex<Vec<Text>> = Mutex::new(Vec::new());

/// How long a text waits for its thread, which may never call the driver again.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

fn lock() -> MutexGuard<'static, Vec<Text>> {
    TEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a text that a kernel prints. With the feature `export` the text is written at once, because no test harness
/// captures it.
pub(crate) fn add(launcher: &Launcher, words: &str) {
    if cfg!(feature = "export") {
        print!("{words}");
        return;
    }
    let mut texts = lock();
    match texts.last_mut().filter(|last| last.launcher.0.ptr_eq(&launcher.0)) {
        Some(last) => last.words += words,
        None => {
            texts.push(Text { launcher: launcher.clone(), words: words.to_owned(), since: Instant::now() })
        }
    }
    watched::set(watched::TEXTS, true);
}

/// Removes the texts for which `is_due` is true, and returns them joined.
fn take(is_due: impl Fn(&Text) -> bool) -> String {
    let mut texts = lock();
    let (due, left) = mem::take(&mut *texts).into_iter().partition::<Vec<_>, _>(is_due);
    *texts = left;
    watched::set(watched::TEXTS, !texts.is_empty());
    due.into_iter().map(|text| text.words).collect()
}

/// Removes the texts of the calling thread and of threads that have ended, and returns them joined.
pub(crate) fn take_own() -> String {
    if watched::has(watched::TEXTS) {
        take(|text| text.launcher.is_current() || text.launcher.has_ended())
    } else {
        String::new()
    }
}

/// Writes what kernels of the calling thread have printed.
pub(crate) fn write() {
    let text = take_own();
    if !text.is_empty() {
        print!("{text}");
    }
}

/// Writes texts that their threads have not written for too long. A test harness does not capture these. Returns
/// whether any texts are left.
pub(crate) fn write_old() -> bool {
    if watched::has(watched::TEXTS) {
        let _ = io::stdout().write_all(take(|text| text.since.elapsed() > TIMEOUT).as_bytes());
    }
    watched::has(watched::TEXTS)
}
