//! Marks the program as ready. After the mark, everything late is a finding, and may be refused.

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

/// Marks the program as ready if the file that says so exists.
pub(crate) fn look() {
    let file = Audit::chosen().ready_file.as_ref();
    if file.is_some_and(|file| !recording::is_ready() && file.exists()) {
        recording::mark_ready();
    }
}

/// Starts the wait after which the program counts as ready, if the options have one.
pub(crate) fn start() {
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
