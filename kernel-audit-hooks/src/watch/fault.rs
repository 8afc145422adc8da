//! Notes the first call that fails because a kernel or a device has failed. All later calls of the process fail, too.

use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::CUresult;
use kernel_registry_cuda::sticky;

use crate::record::{Explanation, Kind};
use crate::watch::events;
use crate::watch::hang::busy;
use crate::watch::process::say::say;
use crate::watch::record::call::Call;
use crate::watch::record::launches;
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::recording::now;

static NOTED: AtomicBool = AtomicBool::new(false);

/// Resets what was noted in a forked child, which may have a device of its own.
pub(crate) fn forked() {
    NOTED.store(false, Ordering::Relaxed);
}

/// Notes that a call failed, if that is the first sign of a fault. Returns the result.
#[inline]
pub(crate) fn noted(call: Call, result: CUresult) -> CUresult {
    if result as u32 >= sticky::STICKY[0].0 && !NOTED.load(Ordering::Relaxed) {
        note(call, result as u32);
    }
    result
}

#[cold]
fn note(call: Call, result: u32) {
    let Some(what) = sticky::reason(result) else { return };
    if NOTED.swap(true, Ordering::Relaxed) {
        return;
    }
    // The driver answers nothing any more, so only what was launched is known, and not which kernel it was.
    let last = launches::streams().map(|(_, stream)| busy::running(&stream)).collect();
    let explanation = Explanation { busy: Some(last), ..Explanation::none() };
    let explanation = Some(&explanation);
    let event = NewEvent { kind: Kind::Fault, begun: now(), result, explanation, ..NewEvent::default() };
    let caller = events::record_event(call, event);
    let by = if caller.name.is_empty() { String::new() } else { format!(" in {}", caller.name) };
    say(&format!("FAULT: {what} (result {result}), says `{}`{by}", call.name()));
}
