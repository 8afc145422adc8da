//! Stops threads of the host at each call of the driver, and at each access to memory that running kernels share, until the
//! scheduler lets them continue.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::thread;

use super::host::{self, ACCESS, Host};
use crate::driver::launch::execution::lock;
use crate::driver::names::is_called;
use crate::driver::state::State;
use crate::driver::state::simulator::{Locked, Simulator, wait_for_change};
use crate::driver::watched;

type Condition = host::Condition<State>;

thread_local! {
    /// The steps of others at this thread's latest look, and how often it has looked at each address since.
    static LOOKS: RefCell<(u64, HashMap<usize, u32>)> = RefCell::default();
    /// How many steps this thread has taken.
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// Whether this thread is within a call, which may itself call the driver, or does the driver's own work.
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Calls of these names only return what doesn't change, or change what only the calling thread has: no order of them matters.
const PURE: [&str; 31] = [
    "cuCtxGetApiVersion",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxGetFlags",
    "cuCtxGetId",
    "cuCtxGetStreamPriorityRange",
    "cuCtxPopCurrent",
    "cuCtxPushCurrent",
    "cuCtxSetCurrent",
    "cuDeviceCanAccessPeer",
    "cuDeviceComputeCapability",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetByPCIBusId",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDeviceGetUuid",
    "cuDeviceTotalMem",
    "cuDriverGetVersion",
    "cuFuncIsLoaded",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuLibraryGetKernel",
    "cuModuleGetLoadingMode",
    "cuStreamGetCtx",
    "cuStreamGetFlags",
    "cuStreamGetId",
    "cuStreamGetPriority",
    "cuThreadExchangeStreamCaptureMode",
];

/// A call in progress. Until it's dropped, calls within it aren't stopped.
pub(crate) struct Within(());

impl Drop for Within {
    fn drop(&mut self) {
        IS_WITHIN.set(false);
    }
}

/// Marks the calling thread as the scheduler's own.
pub(crate) fn belong_to_scheduler() {
    IS_WITHIN.set(true);
}

/// Stops the calling thread before a call, until the scheduler lets it go on.
pub(crate) fn enter(call: &'static str) -> Option<Within> {
    if IS_WITHIN.get() || PURE.iter().any(|pure| is_called(call, pure)) {
        return None;
    }
    let state = Simulator::get().lock();
    if state.scheduler.is_none() || !state.initialised {
        return None;
    }
    IS_WITHIN.set(true);
    // Who asks again and again whether work is done polls.
    let may_poll =
        call.ends_with("Query") && state.streams.iter().any(|(_, stream)| !stream.queue.is_empty());
    let condition = may_poll.then(|| polls(&state, call.as_ptr().addr())).flatten();
    drop(stop(state, Some(call), condition));
    Some(Within(()))
}

/// Returns what a thread waits for that looks at something again: if it has looked twice since anyone else took a step, for the next
/// such step.
fn polls(state: &State, address: usize) -> Option<Condition> {
    let own = STEPS.get();
    let others = state.scheduler.as_ref()?.changes - own;
    let looks = LOOKS.with_borrow_mut(|(before, looks)| {
        if *before != others {
            looks.clear();
        }
        *before = others;
        let count = looks.entry(address).or_default();
        *count += 1;
        *count
    });
    let changes = move |state: &State| {
        let scheduler = state.scheduler.as_ref();
        scheduler.is_none_or(|scheduler| scheduler.frees_polls || scheduler.changes - own > others)
    };
    (looks > 2).then(|| Box::new(changes) as Condition)
}

/// The name by which `kernel-registry-resident` finds [`step`].
pub(crate) const STEP: &str = "kernelRegistrySimulatedDriverStep";

/// Stops the calling thread before an access to memory that running kernels share.
pub(crate) extern "C" fn step(address: usize, bytes: usize) {
    if !watched::has(watched::EXPLORED) || IS_WITHIN.get() {
        return;
    }
    let Ok(simulator) = Simulator::of_this_process() else { return };
    let state = simulator.lock();
    let condition = polls(&state, address);
    let state = stop(state, Some(ACCESS), condition);
    if let Some(watched) = &state.watched {
        lock(&watched.races).read_by_host(address as u64..(address + bytes) as u64);
    }
}

/// Waits until a condition of the state holds. While it waits, the lock is released.
pub(crate) fn wait_until(mut state: Locked, condition: impl Fn(&State) -> bool + Send + 'static) -> Locked {
    if watched::has(watched::EXPLORED) && state.scheduler.is_some() {
        return if condition(&state) { state } else { stop(state, None, Some(Box::new(condition))) };
    }
    while !condition(&state) {
        state = wait_for_change(state);
    }
    state
}

fn stop(mut state: Locked, call: Option<&'static str>, condition: Option<Condition>) -> Locked {
    // SAFETY: the call has no arguments, and returns the id of the calling thread.
    let id = unsafe { libc::gettid() };
    let Some(scheduler) = &mut state.scheduler else { return state };
    scheduler.hosts.away.remove(id);
    scheduler.hosts.seen.remove(&id);
    let place = (scheduler.is_detailed && call.is_some()).then(calling_line).flatten();
    let host = scheduler.hosts.all.entry(id).or_insert_with(|| Host {
        number: None,
        name: thread::current().name().map(str::to_owned),
        call: "",
        place: None,
        condition: None,
        is_stopped: true,
    });
    if let Some(call) = call {
        (host.call, host.place) = (call, place);
    }
    (host.condition, host.is_stopped) = (condition, true);
    let wakeup = state.wakeup.clone();
    wakeup.notify();
    let is_stopped = |state: &State| {
        let hosts = state.scheduler.as_ref().map(|scheduler| &scheduler.hosts.all);
        hosts.and_then(|hosts| hosts.get(&id)).is_some_and(|host| host.is_stopped)
    };
    while is_stopped(&state) {
        state = wakeup.wait(state);
    }
    STEPS.set(STEPS.get() + 1);
    state
}

/// Returns the line of the program from which the driver was called: the innermost that isn't of a library of the call.
fn calling_line() -> Option<String> {
    const LIBRARIES: [&str; 5] = ["kernel_registry", "cudarc::", "std::", "core::", "alloc::"];
    const FOLDERS: [&str; 5] = ["/rustc/", "/.cargo/registry/", "/.cargo/git/", "nptl/", "sysdeps/"];
    let trace = Backtrace::force_capture().to_string();
    let mut of_library = true;
    for line in trace.lines().map(str::trim_start) {
        if let Some(place) = line.strip_prefix("at ") {
            if !of_library && !FOLDERS.iter().any(|folder| place.contains(folder)) {
                let (place, _column) = place.rsplit_once(':')?;
                return Some(place.strip_prefix("./").unwrap_or(place).to_owned());
            }
        } else if let Some((_, function)) = line.split_once(": ") {
            let function = function.trim_start_matches('<');
            of_library = LIBRARIES.iter().any(|library| function.starts_with(library));
        }
    }
    None
}
