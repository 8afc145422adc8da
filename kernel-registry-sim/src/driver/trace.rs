//! A record of the calls that were made.

use std::sync::{Mutex, PoisonError};

use super::result::Code;

/// A call of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function, such as `cuMemAlloc_v2`.
    pub name: &'static str,
    /// What it returned, which is a `CUresult`.
    pub result: u32,
}

#[derive(Debug, Default)]
pub(super) struct Trace(Mutex<Vec<Call>>);

impl Trace {
    pub(super) fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn add(&self, name: &'static str, result: Code) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Call { name, result: result.0 });
    }
}
