//! Ends the process where an option says so.

use std::process;
use std::thread;
use std::time::Duration;

use crate::watch::process::threads;

/// How long the program's handler of SIGABRT may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the process by SIGABRT, with the program's handler of that signal if there is one. A handler may never return:
/// Python's writes its lines to the standard error output, which can be a pipe that nobody reads.
pub(crate) fn abort() -> ! {
    // Without this thread, a handler that does not return keeps the process.
    let _ = threads::start(|| {
        thread::sleep(PATIENCE);
        // SAFETY: the default action calls no function.
        unsafe { libc::signal(libc::SIGABRT, libc::SIG_DFL) };
        process::abort();
    });
    process::abort();
}
