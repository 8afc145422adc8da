//! Tests that are one at a time: what they change or count is there once a process.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub type Turn = MutexGuard<'static, ()>;

/// Waits until no other test has its turn. A test that failed ended its own.
pub fn take() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
