//! A condition variable: threads wait on it for a change of the state, and each change wakes them.

use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// The condition variable that belongs to the lock of the state. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Wakeup(Arc<Condvar>);

impl Wakeup {
    /// Wakes all threads, because work was submitted or is done.
    pub(crate) fn notify(&self) {
        self.0.notify_all();
    }

    /// Waits for a change, without the lock.
    pub(crate) fn wait<'l, T>(&self, state: MutexGuard<'l, T>) -> MutexGuard<'l, T> {
        self.0.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, without the lock, but no longer than `longest`.
    pub(crate) fn wait_for<'l, T>(&self, state: MutexGuard<'l, T>, longest: Duration) -> MutexGuard<'l, T> {
        self.0.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner).0
    }
}
