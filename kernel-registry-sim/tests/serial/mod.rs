//! Runs tests one at a time, because they change or count state of the whole process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The permission to run, which is returned when this value is dropped.
pub type Turn = MutexGuard<'static, ()>;

/// Waits until no other test runs.
pub fn take() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
