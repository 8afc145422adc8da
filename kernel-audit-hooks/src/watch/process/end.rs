//! Ends the process if an option asks for that.

use std::process;
use std::thread;
use std::time::Duration;

use crate::watch::process::threads;

/// How long the program's SIGABRT handler may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the process by SIGABRT, and runs the program's handler if there is one. That may never return:
/// Python's writes to stderr, which can be a pipe without a reader.
pub(crate) fn abort() -> ! {
    // Ends the process if the handler doesn't return.
    let _ = threads::start(|| {
        thread::sleep(PATIENCE);
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGABRT, libc::SIG_DFL) };
        process::abort();
    });
    process::abort();
}
