//! Readiness: after a mark, everything late is a finding, and may be refused.

use std::env;
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cudarc::driver::sys::CUresult;

use crate::recording;
use crate::variables::{AFTER_READY, READY_AFTER, READY_SIGNAL};

static READY: AtomicBool = AtomicBool::new(false);

/// What happens to calls that are late, after the mark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Report,
    Refuse,
    Abort,
}

impl After {
    fn get() -> After {
        static CHOSEN: OnceLock<After> = OnceLock::new();
        *CHOSEN.get_or_init(|| match env::var(AFTER_READY).as_deref() {
            Ok("refuse") => After::Refuse,
            Ok("abort") => After::Abort,
            _ => After::Report,
        })
    }
}

/// Marks the program as ready. Programs in any language call it: Python by `ctypes.CDLL(None)`.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub extern "C" fn kernel_registry_audit_ready() {
    READY.store(true, Ordering::Relaxed);
    recording::ready();
}

pub(crate) fn is_ready() -> bool {
    READY.load(Ordering::Relaxed)
}

/// Starts the time after which the program counts as ready, and waits for the signal that says so, if there are any.
pub(crate) fn start() {
    if let Some(signal) = env::var(READY_SIGNAL).ok().and_then(|signal| signal.parse::<libc::c_int>().ok()) {
        extern "C" fn say(_: libc::c_int) {
            kernel_registry_audit_ready();
        }
        // SAFETY: the handler stores two numbers: the record is there when this function is called.
        unsafe { libc::signal(signal, say as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
    let seconds = env::var(READY_AFTER).ok().and_then(|seconds| seconds.parse::<f64>().ok());
    let Some(wait) = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) else { return };
    // Without a thread the program is never ready, which the report says.
    let _ = thread::Builder::new().name("kernel-registry-audit".to_owned()).spawn(move || {
        thread::sleep(wait);
        kernel_registry_audit_ready();
    });
}

/// The answer to a call that is late, if it is refused. `what` says it in words, for people.
pub(crate) fn refusal(what: impl FnOnce() -> String) -> Option<CUresult> {
    if !is_ready() || After::get() == After::Report {
        return None;
    }
    eprintln!("kernel-registry-audit: REFUSED after the program was ready: {}", what());
    if After::get() == After::Abort {
        process::abort();
    }
    Some(CUresult::CUDA_ERROR_NOT_PERMITTED)
}
