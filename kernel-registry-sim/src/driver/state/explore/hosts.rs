//! Stops threads of the host at each call of the driver, and at each access to memory that kernels access meanwhile, until the
//! scheduler lets them go on.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::thread;

use kernel_registry_schedule::Party;

use crate::driver::launch::execution::lock;
use crate::driver::names::is_called;
use crate::driver::state::State;
use crate::driver::state::simulator::{Locked, Simulator, wait_for_change};
use crate::driver::watched;

/// The condition for which a call waits.
pub(crate) type Condition = Box<dyn Fn(&State) -> bool + Send>;

/// A thread that has called the driver.
pub(crate) struct Host {
    /// Its rank among all threads, in the order of their creation.
    pub(crate) number: Option<u32>,
    pub(crate) name: Option<String>,
    pub(crate) call: &'static str,
    /// The line of the program with the call, if steps are described.
    pub(crate) place: Option<String>,
    pub(crate) condition: Option<Condition>,
    /// Whether the thread waits for the scheduler.
    pub(crate) is_stopped: bool,
}

impl Host {
    pub(crate) fn party(&self) -> Option<Party> {
        self.number.map(Party::Host)
    }

    /// Returns whether the thread looks at the same thing again and again.
    pub(crate) fn polls(&self) -> bool {
        self.is_stopped && self.condition.is_some() && (self.call == ACCESS || self.call.ends_with("Query"))
    }

    pub(crate) fn can_continue(&self, state: &State) -> bool {
        self.is_stopped && self.condition.as_ref().is_none_or(|condition| condition(state))
    }
}

/// What a thread does that hasn't stopped at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doing {
    /// It waits for another thread, without a limit of time or with one that's far away.
    Blocked,
    /// It waits for something outside of the process.
    External,
    /// It sleeps, or waits for another thread with a limit of time.
    Sleeps,
    Runs,
}

/// All such threads, by their Linux id.
#[derive(Default)]
pub(crate) struct Hosts {
    pub(crate) all: BTreeMap<i32, Host>,
    pub(crate) away: Away,
    /// What threads did when they were last looked at that hadn't stopped, and how long they had run.
    pub(crate) seen: BTreeMap<i32, (Doing, String)>,
    /// The thread that went on last.
    pub(crate) latest: Option<i32>,
    next: u32,
}

/// A thread that wasn't waited for so often is left alone until it calls the driver.
const OFTEN: u32 = 3;

/// Threads that weren't waited for, each with how long it had run then, and how often that was since its last call.
#[derive(Default)]
pub(crate) struct Away {
    all: BTreeMap<i32, (String, u32)>,
    /// Whether the record says that there are any.
    pub(crate) is_noted: bool,
}

impl Away {
    /// Returns whether a thread is still in the sleep in which it was seen, or is never waited for.
    pub(crate) fn has(&self, id: i32, time: &str) -> bool {
        self.all.get(&id).is_some_and(|(before, often)| before == time || *often >= OFTEN)
    }

    pub(crate) fn add(&mut self, id: i32, time: String) {
        let often = self.all.get(&id).map_or(0, |(_, often)| *often);
        self.all.insert(id, (time, often + 1));
    }

    /// A thread has called the driver.
    pub(crate) fn remove(&mut self, id: i32) {
        self.all.remove(&id);
    }
}

impl Hosts {
    /// Returns whether the thread that went on last hasn't stopped since.
    pub(crate) fn goes_on(&self) -> bool {
        let latest = self.latest.and_then(|latest| self.all.get(&latest));
        latest.is_some_and(|host| !host.is_stopped)
    }

    /// Gives new threads their numbers. All threads are at rest, so that their order is that of their creation.
    pub(crate) fn number(&mut self) {
        for host in self.all.values_mut().filter(|host| host.number.is_none()) {
            host.number = Some(self.next);
            self.next += 1;
        }
    }
}

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

/// What stands for the name of a call.
pub(crate) const ACCESS: &str = "an access to mapped memory";

/// The name by which `kernel-registry-resident` finds [`step`].
pub(crate) const STEP: &str = "kernelRegistrySimulatedDriverStep";

/// Stops the calling thread before an access to memory that kernels access meanwhile.
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
