//! Records the outcome of preloading: which images and kernels were loaded.

use std::sync::atomic::{AtomicBool, Ordering};

use super::state::STATE;
use crate::record::{Kind, RawEvent, Subject};
use crate::watch::known::contexts;
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::recording::{self, now, write_event};

/// Records that something was preloaded. Returns the event, if there was room for it.
pub(super) fn done(subject: Subject<&str>, begun: u64) -> Option<&'static RawEvent> {
    record(NewEvent { subject, begun, took: now() - begun, ..NewEvent::default() })
}

/// Records that something was not preloaded, and why.
pub(super) fn failed(subject: Subject<&str>, reason: &str) {
    record(NewEvent { subject, begun: now(), result: u32::MAX, reason, ..NewEvent::default() });
}

/// Records an event, unless half of the record is used up: the other half is for events of the program.
fn record(event: NewEvent<'_>) -> Option<&'static RawEvent> {
    if recording::is_half_full() {
        STATE.lock().unrecorded += 1;
        return None;
    }
    write(event)
}

/// Records once how many events weren't recorded.
pub(super) fn record_rest() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    let count = STATE.lock().unrecorded;
    if count > 0 && !ONCE.swap(true, Ordering::Relaxed) {
        let reason = "the record has no room to say what became of it; `--events NUMBER` makes more";
        let subject = Subject::More { count };
        write(NewEvent { subject, begun: now(), result: u32::MAX, reason, ..NewEvent::default() });
    }
}

fn write(event: NewEvent<'_>) -> Option<&'static RawEvent> {
    let (kind, call, context) = (Kind::Preload, "preload", contexts::current());
    write_event(NewEvent { kind, call, context, ..event })
}
