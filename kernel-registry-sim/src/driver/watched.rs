//! The flag that each call looks at: whether there are hooks, a call that waits for a device, or texts to write.

use std::sync::atomic::{AtomicU8, Ordering};

/// The bits that are set. A library that was opened as a file is watched until its configuration is known.
static WATCHED: AtomicU8 = AtomicU8::new(if cfg!(feature = "export") { HOOKS } else { 0 });

/// There are faults, delays or recordings.
pub(crate) const HOOKS: u8 = 1;
/// A call waits for a device.
pub(crate) const WAITING: u8 = 2;

/// Kernels have printed texts that are not written yet.
pub(crate) const TEXTS: u8 = 4;
/// A context has failed.
pub(crate) const FAILED: u8 = 8;

/// Whether one of these bits is set.
pub(crate) fn has(what: u8) -> bool {
    WATCHED.load(Ordering::Relaxed) & what != 0
}

/// Whether any bit is set.
#[inline]
pub(crate) fn is_any() -> bool {
    WATCHED.load(Ordering::Relaxed) != 0
}

/// Sets bits or clears them. [`WAITING`] is set and cleared only under the state's lock, [`TEXTS`] only under that of the texts.
pub(crate) fn set(what: u8, is_there: bool) {
    if is_there {
        WATCHED.fetch_or(what, Ordering::Relaxed);
    } else {
        WATCHED.fetch_and(!what, Ordering::Relaxed);
    }
}
