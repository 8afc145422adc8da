//! Defines the flags that every call checks: whether there are hooks, calls that wait for a device, or texts to write.

use std::sync::atomic::{AtomicU8, Ordering};

/// The flags that are set. In a library with the feature `export`, [`HOOKS`] is set until the configuration is read.
static WATCHED: AtomicU8 = AtomicU8::new(if cfg!(feature = "export") { HOOKS } else { 0 });

/// Flag: there are faults, delays or recordings.
pub(crate) const HOOKS: u8 = 1;
/// Flag: a call waits for a device.
pub(crate) const WAITING: u8 = 2;

/// Flag: a scheduler decides who goes on.
pub(crate) const EXPLORED: u8 = 16;

/// Flag: kernels have printed texts that are not written yet.
pub(crate) const TEXTS: u8 = 4;
/// Flag: a context has failed.
pub(crate) const FAILED: u8 = 8;

/// Returns whether any of these flags is set.
pub(crate) fn has(what: u8) -> bool {
    WATCHED.load(Ordering::Relaxed) & what != 0
}

/// Returns whether any flag is set.
#[inline]
pub(crate) fn is_any() -> bool {
    WATCHED.load(Ordering::Relaxed) != 0
}

/// Sets or clears flags. [`WAITING`] is changed only under the state's lock, and [`TEXTS`] only under the lock of the
/// texts.
pub(crate) fn set(what: u8, is_there: bool) {
    if is_there {
        WATCHED.fetch_or(what, Ordering::Relaxed);
    } else {
        WATCHED.fetch_and(!what, Ordering::Relaxed);
    }
}
