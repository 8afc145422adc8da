//! Frees that are delayed until no resident kernel is left.

use super::Family;
use super::state::{Delayed, State, state, take_one};

/// Frees something now, or when no resident kernel is left in these contexts, or in any.
pub(crate) fn free(within: Option<Family>, free: impl FnOnce() + Send + 'static) {
    state().delayed.push_back(Delayed { within, free: Box::new(free) });
    free_due();
}

/// Makes the frees that no longer have to wait, in order. No section begins while one is made.
pub(super) fn free_due() {
    loop {
        let mut state = state();
        let State { live, delayed, .. } = &mut *state;
        let waits = |of: Option<Family>| live.iter().any(|live| of.is_none_or(|of| live.within == of));
        let Some(due) = delayed.iter().position(|delayed| !waits(delayed.within)) else { return };
        let Some(Delayed { within, free }) = delayed.remove(due) else { return };
        state.freeing.push(within);
        drop(state);
        free();
        take_one(&mut super::state::state().freeing, &within);
    }
}
