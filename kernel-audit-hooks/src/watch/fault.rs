//! Records the first call that returns the error of a failed kernel or device. All later calls of the process fail, too.

use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::CUresult;
use kernel_registry_cuda::sticky;

use crate::record::{Explanation, Kind, Running};
use crate::watch::caller;
use crate::watch::hang::busy;
use crate::watch::known::contexts;
use crate::watch::process::say::say;
use crate::watch::record::call::{self, Call};
use crate::watch::record::launches;
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::recording::{now, write_event};
use crate::watch::record::slots::thread;

static NOTED: AtomicBool = AtomicBool::new(false);

/// Resets this in a forked child, which may make a context of its own.
pub(crate) fn forked() {
    NOTED.store(false, Ordering::Relaxed);
}

/// Records a call if it's the first that returns such an error. Returns the result.
#[inline]
pub(crate) fn noted(call: Call, result: CUresult) -> CUresult {
    if result as u32 >= sticky::LEAST && !NOTED.load(Ordering::Relaxed) {
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
    // Every query fails now, so only the last launches are known, not which kernel was running.
    let last = launches::streams().filter(|(_, stream)| stream.kernel > 0 && stream.launches > 0);
    let last = last.map(|(_, stream)| {
        let is_own = (stream.handle, stream.thread, stream.kernel) == (call.stream, thread(), call.subject);
        Running { is_own, ..busy::running(&stream) }
    });
    let explanation = Explanation { busy: Some(last.collect()), ..Explanation::none() };
    let caller = caller::find(call::address(call.hook));
    write_event(NewEvent {
        kind: Kind::Fault,
        call: call.name(),
        thread: thread(),
        stream: call.stream,
        context: contexts::current(),
        begun: now(),
        result,
        library: &caller.library,
        caller: &caller.name,
        stack: &caller.stack,
        explanation: Some(&explanation),
        ..NewEvent::default()
    });
    let by = if caller.name.is_empty() { String::new() } else { format!(" in {}", caller.name) };
    say(&format!("FAULT: {what} (result {result}), first returned by `{}`{by}", call.name()));
}
