//! A record of the calls that were made.

use std::sync::Mutex;

/// A call of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function, such as `cuMemAlloc_v2`.
    pub name: &'static str,
    /// What it returned, which is a `CUresult`.
    pub result: u32,
}

/// The calls of all threads, in the order in which they return.
pub(crate) type Trace = Mutex<Vec<Call>>;
