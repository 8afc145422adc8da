//! Lets tests inject faults and record calls.

use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::driver::calls;
use crate::driver::config::faults::{Fault, FaultError, Rule, parse};
use crate::driver::hooks;
use crate::driver::hooks::trace::{Call, Trace};
use crate::driver::names::is_called;

impl Fault {
    /// Injects the fault for all threads. Dropping the guard removes it.
    pub fn inject(self) -> Result<Injected, FaultError> {
        self.check()?;
        let rule = Arc::new(Rule::new(self));
        hooks::change(|hooks| hooks.rules.push(rule.clone()));
        Ok(Injected(rule))
    }

    pub(crate) fn check(&self) -> Result<(), FaultError> {
        match calls::entries().any(|entry| is_called(entry.name, &self.call)) {
            true => Ok(()),
            false => Err(FaultError::NoSuchCall(self.call.clone())),
        }
    }
}

/// A guard that keeps a fault injected.
#[derive(Debug)]
#[must_use = "the fault is gone when this is dropped"]
pub struct Injected(Arc<Rule>);

impl Injected {
    /// Returns how many calls the fault has changed.
    pub fn hits(&self) -> u64 {
        self.0.hits.load(Ordering::Relaxed)
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        hooks::change(|hooks| hooks.rules.retain(|other| !Arc::ptr_eq(other, &self.0)));
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let fault = parse(text).ok_or_else(|| FaultError::Text(text.to_owned()))?;
        fault.check().map(|()| fault)
    }
}

/// A guard that records the calls of all threads, in the order of their returns, until it is dropped.
#[derive(Debug)]
#[must_use = "nothing is recorded after this is dropped"]
pub struct Recording(Arc<Trace>);

/// Records every call of the driver from now on.
///
/// ```
/// kernel_registry_sim::install()?;
/// let recording = kernel_registry_sim::record_calls();
/// // Run the code whose driver calls you want to see.
/// assert!(recording.calls().is_empty());
/// # Ok::<(), kernel_registry_sim::InstallError>(())
/// ```
pub fn record_calls() -> Recording {
    let trace = Arc::<Trace>::default();
    hooks::change(|hooks| hooks.traces.push(trace.clone()));
    Recording(trace)
}

impl Recording {
    /// Returns the calls recorded until now.
    pub fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        hooks::change(|hooks| hooks.traces.retain(|other| !Arc::ptr_eq(other, &self.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_faults_are_errors() {
        for text in [
            "",
            "cuFuncLoad",
            "cuFuncLoad=",
            "cuFuncLoad:x=CUDA_ERROR_UNKNOWN",
            "cuFuncLoad=+5",
            "cuFuncLoad=OOM",
        ] {
            assert_eq!(text.parse::<Fault>(), Err(FaultError::Text(text.to_owned())));
        }
        let unknown = "cuNothing=CUDA_ERROR_UNKNOWN".parse::<Fault>().unwrap_err();
        assert_eq!(unknown, FaultError::NoSuchCall("cuNothing".to_owned()));
        assert!(Fault::fails("cuNothing", 1).inject().is_err());
    }
}
