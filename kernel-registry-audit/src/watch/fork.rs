//! Forked children: what belongs to the parent starts anew there.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between the first watched process and this one.
pub(crate) fn generation() -> u32 {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| in_child(count));
    GENERATION.load(Ordering::Relaxed)
}

static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Calls a function in each child that is forked from now on, before anything else runs there.
pub(crate) fn in_child(reset: extern "C" fn()) {
    // SAFETY: it is called without arguments, and stays where it is.
    unsafe { libc::pthread_atfork(None, None, Some(reset)) };
}
