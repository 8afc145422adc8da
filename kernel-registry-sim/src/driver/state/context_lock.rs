//! Simulates the driver's lock of a context. A thread holds this lock while it loads a kernel, makes a stack grow or
//! frees memory. Calls of other threads that need the lock then also wait, until nothing runs on the device.

use super::State;
use super::current::CurrentContext;
use super::deadlock::wait_until;
use super::simulator::Simulator;
use crate::driver::handles::Handle;
use crate::driver::names::is_called;
use crate::driver::wait::{Seq, WaitReason, Waiting};

/// Prefixes of the functions that take the lock. One function of each prefix was measured next to a launch that loads
/// its kernel.
pub(crate) const TAKE_IT: [&str; 12] = [
    "cuCtxGetLimit",
    "cuEventCreate",
    "cuEventRecord",
    "cuGraphLaunch",
    "cuLaunch",
    "cuMemAlloc",
    "cuMemHostAlloc",
    "cuMemcpy",
    "cuMemset",
    "cuModuleGetFunction",
    "cuOccupancy",
    "cuStreamCreate",
];

/// Functions with these prefixes that do not take the lock.
pub(crate) const PASS: [&str; 2] = ["cuMemAllocAsync", "cuMemAllocFromPoolAsync"];

pub(crate) fn takes_it(function: &str) -> bool {
    TAKE_IT.iter().any(|family| function.starts_with(family))
        && !PASS.iter().any(|name| is_called(function, name))
}

/// Waits until no other thread holds the lock, if the function takes it.
pub(crate) fn wait_for_load(function: &'static str) {
    let (true, Some(current)) = (takes_it(function), CurrentContext::peek()) else { return };
    let context = current.context;
    let mut state = Simulator::get().lock();
    while let Some((device, until)) = load_that_waits(&state, context) {
        match wait_until(state, device, until, function, WaitReason::LoadElsewhere) {
            Ok(after) => state = after,
            Err(_) => return,
        }
    }
}

/// Returns the device that the holder of a context's lock waits for, and the position up to which it waits. `None` if
/// no thread holds the lock.
fn load_that_waits(state: &State, context: Handle) -> Option<(usize, Seq)> {
    let is_it = |waiting: &&Waiting| {
        waiting.holds_lock_of(context) && state.streams.is_busy(waiting.device, waiting.until)
    };
    state.waiting.values().find(is_it).map(|waiting| (waiting.device, waiting.until))
}
