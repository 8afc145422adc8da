//! Marks a process as ready. After the mark, everything late is a finding, and may be refused. A forked child isn't ready
//! because its parent is: it makes a context of its own, and loads its own kernels.

use std::fs::Metadata;
use std::thread;
use std::time::SystemTime;

use cudarc::driver::sys::CUresult;

use crate::options::{AfterReady, Audit};
use crate::watch::process::end;
use crate::watch::process::say::say;
use crate::watch::process::{system, threads};
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

/// Marks this process as ready if the file that says so exists, and the process isn't still starting.
pub(crate) fn look() {
    let Some(file) = Audit::chosen().ready_file.as_ref().filter(|_| !recording::is_ready()) else { return };
    if file.metadata().is_ok_and(|file| has_started(&file)) {
        recording::mark_ready();
    }
}

/// Returns whether this process is older than the file, or has run for as long as the program needed to make the file. A worker
/// that replaces another one would otherwise be late from its first load on.
fn has_started(file: &Metadata) -> bool {
    let made = file.created().or_else(|_| file.modified()).ok();
    let Some(((made, began), age)) = made.zip(Audit::chosen().began).zip(system::age()) else { return true };
    let is_older = SystemTime::now().checked_sub(age).is_none_or(|born| born <= made);
    is_older || age >= made.duration_since(began).unwrap_or_default()
}

/// Begins to look whether this process is ready, once it has a record.
pub(crate) fn start() {
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
