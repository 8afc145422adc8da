//! Frees that are delayed until no resident kernel is left.

use kernel_registry::__private_0_1::resident::Family;

use super::state::{Delayed, State, lock_state};

/// Frees something now, or when no resident kernel is left in these contexts, or in any.
pub(crate) fn free(within: Option<Family>, free: impl FnOnce() + Send + 'static) {
    lock_state().delayed.push_back(Delayed { within, free: Box::new(free) });
    free_due();
}

/// Makes the frees that no longer have to wait, in order. No section begins while one is made.
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
        if let Some(place) = freeing.iter().position(|freed| *freed == within) {
            freeing.swap_remove(place);
        }
    }
}
