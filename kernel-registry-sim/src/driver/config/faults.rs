//! Defines faults that tests inject: calls that fail, take longer, or succeed and break their context.

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::timing::duration;
use crate::driver::names::is_called;
use crate::driver::result::Code;

/// A fault to inject into calls of one driver function. The calls fail, take longer, or succeed and break their
/// context.
///
/// ```
/// use kernel_registry_sim::Fault;
///
/// const CUDA_ERROR_OUT_OF_MEMORY: u32 = 2;
/// kernel_registry_sim::install()?;
/// let fault = Fault::fails("cuModuleLoadData", CUDA_ERROR_OUT_OF_MEMORY).nth(3).inject()?;
/// // The test goes here.
/// assert_eq!(fault.hits(), 0, "it was not called three times");
/// # Ok::<(), kernel_registry::MainError>(())
/// ```
///
/// A fault can be parsed from text, as in `KERNEL_REGISTRY_SIM_FAULTS`: a function, the numbers of its calls, and what
/// happens to them:
///
/// ```
/// # use kernel_registry_sim::Fault;
/// # use std::time::Duration;
/// let third: Fault = "cuModuleLoadData:3=CUDA_ERROR_OUT_OF_MEMORY".parse()?;
/// assert_eq!(third, Fault::fails("cuModuleLoadData", 2).nth(3));
/// let from_the_second: Fault = "cuFuncLoad:2+=+5ms".parse()?;
/// assert_eq!(from_the_second, Fault::delays("cuFuncLoad", Duration::from_millis(5)).from(2));
/// let each: Fault = "cuLaunchKernel=later:CUDA_ERROR_ILLEGAL_ADDRESS".parse()?;
/// assert_eq!(each, Fault::breaks("cuLaunchKernel", 700));
/// # Ok::<(), kernel_registry_sim::FaultError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(crate) call: String,
    /// The calls that the fault changes, by their numbers counted from 1.
    numbers: RangeInclusive<u64>,
    outcome: Outcome,
}

/// The effect of a fault on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Fails(Code),
    Breaks(Code),
    Delays(Duration),
}

impl Fault {
    /// Makes calls fail: they do nothing and return this `CUresult`. A suffix such as `_v2` of the function's name can
    /// be left out.
    ///
    /// A sticky error, such as `CUDA_ERROR_ILLEGAL_ADDRESS` or `CUDA_ERROR_LAUNCH_FAILED`, is returned by later calls too, in
    /// every context unless faults are [contained](crate::Config::contained).
    pub fn fails(call: &str, result: u32) -> Self {
        Fault::new(call, Outcome::Fails(Code(result)))
    }

    /// Makes calls succeed and then break their context, as if a kernel that they launched had failed: the current
    /// context gets a sticky error. All other contexts get it too, unless faults are
    /// [contained](crate::Config::contained).
    pub fn breaks(call: &str, result: u32) -> Self {
        Fault::new(call, Outcome::Breaks(Code(result)))
    }

    /// Makes calls take this much longer.
    pub fn delays(call: &str, time: Duration) -> Self {
        Fault::new(call, Outcome::Delays(time))
    }

    fn new(call: &str, outcome: Outcome) -> Self {
        Fault { call: call.to_owned(), numbers: 1..=u64::MAX, outcome }
    }

    /// Limits the fault to the call with this number, counted from 1 since the fault was injected.
    pub fn nth(self, number: u64) -> Self {
        Fault { numbers: number..=number, ..self }
    }

    /// Limits the fault to the call with this number and all later calls.
    pub fn from(self, number: u64) -> Self {
        Fault { numbers: number..=u64::MAX, ..self }
    }
}

/// An injected fault, with the number of calls that it has seen and changed.
#[derive(Debug)]
pub(crate) struct Rule {
    fault: Fault,
    calls: AtomicU64,
    pub(crate) hits: AtomicU64,
}

impl Rule {
    pub(crate) fn new(fault: Fault) -> Self {
        Rule { fault, calls: AtomicU64::new(0), hits: AtomicU64::new(0) }
    }

    /// Counts a call, and returns what the fault does to it, if it changes the call.
    pub(crate) fn meets(&self, entry: &str) -> Option<Outcome> {
        if !is_called(entry, &self.fault.call) {
            return None;
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        self.fault.numbers.contains(&number).then(|| {
            self.hits.fetch_add(1, Ordering::Relaxed);
            self.fault.outcome
        })
    }
}

/// The reason why a fault cannot be injected.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultError {
    /// The driver has no such function.
    NoSuchCall(String),
    /// The text cannot be parsed.
    Text(String),
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchCall(call) => {
                write!(f, "the driver has no function `{call}`; use the name in cuda.h")
            }
            Self::Text(text) => write!(
                f,
                "`{text}` is no fault; write a call, which ones, and a result, a delay, or `later:` and a result: \
                 `cuModuleLoadData:3=CUDA_ERROR_OUT_OF_MEMORY`, `cuFuncLoad:2+=+5ms`, \
                 `cuLaunchKernel=later:CUDA_ERROR_ILLEGAL_ADDRESS`"
            ),
        }
    }
}

impl Error for FaultError {}

// `main` and `unwrap` print errors by `Debug`, so it prints the text for people.
impl fmt::Debug for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Parses a fault. The function need not exist.
pub(crate) fn parse(text: &str) -> Option<Fault> {
    let (calls, outcome) = text.split_once('=')?;
    let outcome = match (outcome.strip_prefix('+'), outcome.strip_prefix("later:")) {
        (Some(time), _) => Outcome::Delays(duration(time)?),
        (_, Some(result)) => Outcome::Breaks(Code::named(result)?),
        _ => Outcome::Fails(Code::named(outcome)?),
    };
    let Some((call, number)) = calls.split_once(':') else { return Some(Fault::new(calls, outcome)) };
    Some(match number.strip_suffix('+') {
        Some(first) => Fault::new(call, outcome).from(first.parse().ok()?),
        None => Fault::new(call, outcome).nth(number.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_their_name_without_a_version() {
        let rule = Rule::new(Fault::fails("cuMemAlloc", 2).nth(2));
        let met = |entry| rule.meets(entry).is_some();
        assert_eq!(
            [met("cuMemAlloc_v2"), met("cuMemAllocHost_v2"), met("cuMemAlloc_v2"), met("cuMemAlloc_v2")],
            [false, false, true, false]
        );
    }
}
