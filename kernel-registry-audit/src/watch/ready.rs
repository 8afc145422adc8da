//! Readiness: after a mark, everything late is a finding, and may be refused.

use std::process;
use std::thread;

use cudarc::driver::sys::CUresult;

use crate::options::{AfterReady, Audit};
use crate::watch::say::say;
use crate::watch::{recording, threads};

/// Marks the program as ready. Programs in any language call it: Python by `ctypes.CDLL(None)`.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_ready() {
    recording::record();
    recording::mark_ready();
}

/// kernel-registry says that it is in the process, when it finds the driver. Remedies then name its functions.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_attach() {
    recording::mark_kernel_registry();
}

/// Starts the time after which the program counts as ready, and waits for the signal that says so, if there are any.
pub(crate) fn start() {
    let audit = Audit::chosen();
    if let Some(signal) = audit.ready_signal {
        extern "C" fn signalled(_: libc::c_int) {
            recording::mark_ready();
        }
        // SAFETY: the handler stores two numbers, and makes no record.
        unsafe { libc::signal(signal, signalled as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
    let Some(wait) = audit.ready_after else { return };
    // Without a thread the program is never ready, which the report says.
    let _ = threads::start(move || {
        thread::sleep(wait);
        kernel_registry_audit_ready();
    });
}

/// Says that a late call is refused, and returns its answer; `None` if late calls are only reported. The caller records it, and calls [`end`].
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
        process::abort();
    }
}
