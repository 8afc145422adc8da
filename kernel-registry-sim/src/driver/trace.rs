//! Which calls were made.

use std::sync::{Arc, Mutex, PoisonError};

use super::hooks;
use super::result::Code;

/// A call of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function, such as `cuMemAlloc_v2`.
    pub name: &'static str,
    /// What it returned, which is a `CUresult`.
    pub result: u32,
}

/// The calls of all threads, in the order in which they returned.
#[derive(Debug)]
#[must_use = "nothing is recorded after this is dropped"]
pub struct Recording(Arc<Trace>);

#[derive(Debug, Default)]
pub(super) struct Trace(Mutex<Vec<Call>>);

impl Trace {
    pub(super) fn add(&self, name: &'static str, result: Code) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Call { name, result: result.0 });
    }
}

/// Records every call of the driver from now on.
///
/// ```
/// kernel_registry_sim::install()?;
/// let recording = kernel_registry_sim::record_calls();
/// // Here is what is looked at.
/// assert!(recording.calls().is_empty());
/// # Ok::<(), kernel_registry_sim::InstallError>(())
/// ```
pub fn record_calls() -> Recording {
    let trace = Arc::default();
    hooks::add_trace(Arc::clone(&trace));
    Recording(trace)
}

impl Recording {
    /// The calls until now.
    pub fn calls(&self) -> Vec<Call> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        hooks::remove_trace(&self.0);
    }
}
