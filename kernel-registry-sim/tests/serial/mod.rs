//! Runs tests one at a time, because they change or count what a process has once.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub type Turn = MutexGuard<'static, ()>;

/// Waits until no other test has the turn, which ends with its test.
pub fn take() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
