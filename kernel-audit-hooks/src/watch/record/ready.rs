//! Marks a process as ready. After the mark, everything late is a finding, and may be refused. A forked child isn't ready
//! because its parent is: it makes a context of its own, and loads its own kernels.

use std::fs::Metadata;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use cudarc::driver::sys::CUresult;

use crate::options::{AfterReady, Audit};
use crate::watch::process::end;
use crate::watch::process::say::say;
use crate::watch::process::threads;
use crate::watch::record::recording;

/// Marks the program as ready. Programs in any language can call this: Python does so by `ctypes.CDLL(None)`.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_ready() {
    if recording::is_possible() {
        recording::mark_ready();
    }
}

/// Remembers that kernel-registry is in the process. kernel-registry calls this when it finds the driver; remedies then
/// name its functions.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_attach() {
    recording::mark_kernel_registry();
}

/// When this process began, on the clock of its record.
static BEGAN: AtomicU64 = AtomicU64::new(0);

/// Whether this process was there before the file that says that the program is ready.
static PRECEDES_FILE: AtomicBool = AtomicBool::new(false);

/// Marks this process as ready if the file that says so exists, and the process isn't still starting.
pub(crate) fn look() {
    let Some(file) = Audit::chosen().ready_file.as_ref().filter(|_| !recording::is_ready()) else { return };
    match file.metadata() {
        Err(_) => PRECEDES_FILE.store(true, Ordering::Relaxed),
        Ok(file) if PRECEDES_FILE.load(Ordering::Relaxed) || has_started(&file) => recording::mark_ready(),
        Ok(_) => {}
    }
}

/// Returns whether this process, such as a worker that replaces another, has run for as long as the program needed to make the
/// file. Without this time, the start of each later worker would count as late.
fn has_started(file: &Metadata) -> bool {
    let made = file.created().or_else(|_| file.modified()).ok();
    let Some((made, began)) = made.zip(Audit::chosen().began) else { return true };
    let needed = made.duration_since(began).unwrap_or_default();
    recording::now().saturating_sub(BEGAN.load(Ordering::Relaxed)) >= recording::nanoseconds(needed)
}

/// Makes a forked child start anew. It has neither the parent's context nor its kernels.
pub(crate) fn forked() {
    PRECEDES_FILE.store(false, Ordering::Relaxed);
}

/// Begins to look whether this process is ready, once it has a record.
pub(crate) fn start() {
    BEGAN.store(recording::now(), Ordering::Relaxed);
    look();
    let Some(wait) = Audit::chosen().ready_after else { return };
    let started = threads::start(move || {
        thread::sleep(wait);
        kernel_registry_audit_ready();
    });
    if let Err(error) = started {
        recording::mark_thread_lacking(&error, "the program is never ready");
    }
}

/// Says that a late call is refused, and returns the call's result. Returns `None` if late calls are only reported. The
/// caller records the refusal, and calls [`end`].
pub(crate) fn refusal(what: impl FnOnce() -> String, remedy: &str) -> Option<CUresult> {
    let after_ready = Audit::chosen().after_ready;
    if !recording::is_ready() || after_ready == AfterReady::Report {
        return None;
    }
    say(&format!("REFUSED after the program was ready: {}; {remedy}", what()));
    Some(CUresult::CUDA_ERROR_NOT_PERMITTED)
}

/// Ends the program after a refused call, if the options say so.
pub(crate) fn end() {
    if Audit::chosen().after_ready == AfterReady::Abort {
        end::abort();
    }
}
