//! Delays frees until there is no resident kernel that they would wait for.

use kernel_registry::__private_0_1::resident::Family;

use super::state::{Delayed, State, lock_state};

/// Calls `free` as soon as no resident kernel is left in the contexts `within`, or in any context if that's
/// `None`.
pub(crate) fn free(within: Option<Family>, free: impl FnOnce() + Send + 'static) {
    lock_state().delayed.push_back(Delayed { within, free: Box::new(free) });
    free_due();
}

/// Runs the delayed frees that no longer have to wait, in order. No section begins while a free runs.
pub(super) fn free_due() {
    loop {
        let mut state = lock_state();
        let State { live, delayed, .. } = &mut *state;
        let waits =
            |frees: Option<Family>| live.iter().any(|live| frees.is_none_or(|frees| live.within == frees));
        let Some(due) = delayed.iter().position(|delayed| !waits(delayed.within)) else { return };
        let Some(Delayed { within, free }) = delayed.remove(due) else { return };
        state.freeing.push(within);
        drop(state);
        free();
        let freeing = &mut lock_state().freeing;
        if let Some(index) = freeing.iter().position(|freed| *freed == within) {
            freeing.swap_remove(index);
        }
    }
}
