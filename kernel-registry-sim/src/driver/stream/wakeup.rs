//! Defines the condition variable on which threads wait for a change of the state.

use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// The condition variable of the state's lock. Clones share one variable.
#[derive(Clone, Default)]
pub(crate) struct Wakeup(Arc<Condvar>);

impl Wakeup {
    /// Wakes all waiting threads, because work was submitted or finished.
    pub(crate) fn notify(&self) {
        self.0.notify_all();
    }

    /// Waits for a change, with the lock released.
    pub(crate) fn wait<'l, T>(&self, state: MutexGuard<'l, T>) -> MutexGuard<'l, T> {
        self.0.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, with the lock released, but no longer than `longest`.
    pub(crate) fn wait_for<'l, T>(&self, state: MutexGuard<'l, T>, longest: Duration) -> MutexGuard<'l, T> {
        self.0.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner).0
    }
}
