//! Records whether the images and kernels of a preload were loaded.

use std::sync::atomic::{AtomicBool, Ordering};

use super::state::STATE;
use crate::preload::Origin;
use crate::record::Kind;
use crate::watch::known::contexts;
use crate::watch::record::recording::{self, NewEvent, now, write_event};

/// The subject of events about images, among the events of a preload.
pub(super) const IMAGE: &str = "image";

/// Records that a kernel, or an image, was preloaded.
pub(super) fn done(subject: &str, image: &str, begun: u64) {
    record(subject, image, NewEvent { begun, took: now() - begun, ..NewEvent::default() });
}

/// Records that an image was preloaded.
pub(super) fn image_done(origin: &Origin, words: &str, begun: u64) {
    let origin = &origin.to_string();
    record(IMAGE, words, NewEvent { begun, took: now() - begun, origin, ..NewEvent::default() });
}

/// Records that something was not preloaded, and why.
pub(super) fn failed(subject: &str, image: &str, why: &str) {
    record(subject, image, NewEvent { begun: now(), result: u32::MAX, text: why, ..NewEvent::default() });
}

/// Records an event, unless half of the record is used up: the other half is for events of the program.
fn record(subject: &str, image: &str, event: NewEvent<'_>) {
    if recording::is_half_full() {
        STATE.lock().unrecorded += 1;
    } else {
        write(subject, image, event);
    }
}

/// Records once how many events found no room.
pub(super) fn record_rest() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    let unrecorded = STATE.lock().unrecorded;
    if unrecorded > 0 && !ONCE.swap(true, Ordering::Relaxed) {
        let text = "the record has no room to say what became of it; `--events NUMBER` makes more";
        let event = NewEvent { begun: now(), result: u32::MAX, text, ..NewEvent::default() };
        write(&format!("{unrecorded} more"), "", event);
    }
}

fn write(subject: &str, image: &str, event: NewEvent<'_>) {
    let (kind, call, context) = (Kind::Preload, "preload", contexts::current());
    write_event(NewEvent { kind, call, context, subject, image, ..event });
}
