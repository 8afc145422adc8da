//! The kernels that are known to be loaded, and the names of handles. Asking costs a launch a few loads; only calls that load
//! something lock and allocate.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots of the table. Programs have thousands of kernels; a full table makes later launches slower, and not wrong.
const SIZE: usize = 1 << 16;

/// Handles of loaded kernels, at the place of their hash or behind it.
static LOADED: [AtomicU64; SIZE] = [const { AtomicU64::new(0) }; SIZE];

/// How far a handle may lie behind its place.
const REACH: usize = 64;

static NAMES: Mutex<Option<HashMap<u64, String>>> = Mutex::new(None);

fn places(handle: u64) -> impl Iterator<Item = &'static AtomicU64> {
    // The golden ratio spreads handles, which are multiples of a power of two.
    let hash = handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    (0..REACH).map(move |step| &LOADED[(hash as usize + step) % SIZE])
}

/// Whether a kernel is known to be loaded.
#[inline]
pub(crate) fn is_loaded(handle: u64) -> bool {
    for place in places(handle) {
        match place.load(Ordering::Relaxed) {
            0 => return false,
            other if other == handle => return true,
            _ => {}
        }
    }
    false
}

/// Remembers that a kernel is loaded.
pub(crate) fn loaded(handle: u64) {
    for place in places(handle) {
        let found = place.compare_exchange(0, handle, Ordering::Relaxed, Ordering::Relaxed);
        if found.is_ok() || found == Err(handle) {
            return;
        }
    }
}

/// Forgets everything: code was unloaded, and its handles may stand for other kernels soon.
pub(crate) fn forget() {
    LOADED.iter().for_each(|place| place.store(0, Ordering::Relaxed));
}

/// Remembers what a handle is called.
pub(crate) fn name(handle: u64, name: &str) {
    let mut names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    names.get_or_insert_default().insert(handle, name.to_owned());
}

/// What a handle is called.
pub(crate) fn named(handle: u64) -> Option<String> {
    let names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    names.as_ref()?.get(&handle).cloned()
}
