//! Defines a recorded call of the driver, and a list of such calls.

use std::sync::Mutex;

/// A call of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The name of the function, such as `cuMemAlloc_v2`.
    pub name: &'static str,
    /// The `CUresult` that the function returned.
    pub result: u32,
}

/// The calls of all threads, in the order in which they return.
pub(crate) type Trace = Mutex<Vec<Call>>;
