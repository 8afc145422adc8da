//! The flag that each call looks at: whether there are hooks, or a call waits for a device.

use std::sync::atomic::{AtomicU8, Ordering};

/// Bits of what there is. A library that was opened as a file is watched until its configuration is known.
static WATCHED: AtomicU8 = AtomicU8::new(if cfg!(feature = "export") { HOOKS } else { 0 });

/// There are faults, delays or recordings.
pub(super) const HOOKS: u8 = 1;
/// A call waits for a device.
pub(super) const WAITING: u8 = 2;

/// Whether there is anything.
#[inline]
pub(super) fn is_any() -> bool {
    WATCHED.load(Ordering::Relaxed) != 0
}

/// Says whether there is something. Of [`WAITING`] only the holder of the state's lock says so.
pub(super) fn set(what: u8, is_there: bool) {
    if is_there {
        WATCHED.fetch_or(what, Ordering::Relaxed);
    } else {
        WATCHED.fetch_and(!what, Ordering::Relaxed);
    }
}
