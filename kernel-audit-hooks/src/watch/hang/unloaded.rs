//! Remembers kernels that were launched, or whose handles were obtained, before they were loaded and while other kernels
//! ran. Such calls return, but the kernels wait on the device.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::record::{self, UnloadedHandles};
use crate::watch::caller::Caller;
use crate::watch::hang::busy;
use crate::watch::known::handles;
use crate::watch::process::locked::Locked;
use crate::watch::record::call::Call;
use crate::watch::record::launches::Stream;
use crate::watch::record::slots::thread;

/// The first launch of a kernel that was not loaded.
#[derive(Clone)]
pub(crate) struct UnloadedLaunch {
    kernel: String,
    stream: u64,
    thread: u32,
    /// The library that made the launch, and the function in it.
    caller: String,
    /// The streams that were busy at the launch.
    running: Vec<Stream>,
}

impl UnloadedLaunch {
    pub(crate) fn new(call: Call, kernel: String, caller: Caller, running: Vec<Stream>) -> Self {
        UnloadedLaunch { kernel, stream: call.stream, thread: thread(), caller: caller.name, running }
    }

    /// Returns the launch with the streams that it still waits for, or `None` if it waits no more.
    fn still_waits(&self, busy: &[Stream]) -> Option<UnloadedLaunch> {
        let is_busy = busy.iter().any(|busy| busy.handle == self.stream);
        let mut still = self.clone();
        still.running.retain(|before| still_runs(before, busy));
        (is_busy && !still.running.is_empty()).then_some(still)
    }
}

impl From<&UnloadedLaunch> for record::UnloadedLaunch {
    fn from(launch: &UnloadedLaunch) -> Self {
        let UnloadedLaunch { kernel, stream, thread, caller, running } = launch;
        record::UnloadedLaunch {
            kernel: kernel.as_str().into(),
            stream: *stream,
            thread: *thread,
            caller: caller.as_str().into(),
            running: running.iter().map(busy::running).collect(),
        }
    }
}

/// Kernels whose handles were obtained while other kernels ran.
pub(crate) struct Taken {
    /// The names of a few of the kernels.
    kernels: Vec<String>,
    count: usize,
    /// The thread that obtained one of the handles.
    pub(crate) thread: u32,
    /// The streams that were busy then.
    running: Vec<Stream>,
}

impl From<&Taken> for UnloadedHandles {
    fn from(taken: &Taken) -> Self {
        UnloadedHandles {
            kernels: taken.kernels.iter().map(|kernel| kernel.as_str().into()).collect(),
            count: taken.count.try_into().unwrap_or(u32::MAX),
            running: taken.running.iter().map(busy::running).collect(),
        }
    }
}

#[derive(Default)]
struct Waiting {
    /// The launches that may still wait, by their streams.
    launches: HashMap<u64, UnloadedLaunch>,
    /// The functions that may not be loaded yet.
    functions: HashMap<u64, TakenFunction>,
}

/// A function whose handle was obtained while other kernels ran.
#[derive(Clone)]
struct TakenFunction {
    thread: u32,
    /// The streams that were busy then.
    running: Vec<Stream>,
}

impl TakenFunction {
    fn still_waits(&self, busy: &[Stream]) -> bool {
        self.running.iter().any(|before| still_runs(before, busy))
    }
}

static WAITING: Locked<Waiting> = Locked::new();

/// Whether any launch or function may be waiting.
static ANY: AtomicBool = AtomicBool::new(false);

/// Remembers that the handle of a function was obtained while these streams were busy.
pub(crate) fn add_taken(function: u64, running: Vec<Stream>) {
    if !running.is_empty() {
        WAITING.lock().functions.insert(function, TakenFunction { thread: thread(), running });
        ANY.store(true, Ordering::Relaxed);
    }
}

/// Returns whether loading a function still waits for kernels that ran when its handle was obtained.
pub(crate) fn is_waiting(function: u64) -> bool {
    if !ANY.load(Ordering::Relaxed) {
        return false;
    }
    let Some(taken) = WAITING.lock().functions.get(&function).cloned() else { return false };
    taken.still_waits(&busy::find_others(None))
}

/// Returns whether a stream still runs the kernel that it ran before. Nothing is launched after a resident kernel in
/// its stream, so the stream's counts stay the same.
fn still_runs(before: &Stream, busy: &[Stream]) -> bool {
    let same = |busy: &Stream| (busy.handle, busy.thread, busy.kernel, busy.launches);
    busy.iter().any(|busy| same(busy) == same(before))
}

/// Remembers the launch of a kernel that was not loaded, while other kernels ran.
pub(crate) fn add_launch(launch: UnloadedLaunch) {
    WAITING.lock().launches.insert(launch.stream, launch);
    ANY.store(true, Ordering::Relaxed);
}

/// Returns the launches that still wait while these streams are busy.
pub(crate) fn find_waiting(busy: &[Stream]) -> Vec<UnloadedLaunch> {
    let Waiting { launches, .. } = &*WAITING.lock();
    let mut waiting: Vec<_> = launches.values().filter_map(|launch| launch.still_waits(busy)).collect();
    waiting.sort_by_key(|launch| launch.stream);
    waiting
}

/// Returns the functions whose handles were obtained, and that are still not loaded while these streams are busy.
pub(crate) fn find_taken(busy: &[Stream]) -> Option<Taken> {
    const LISTED: usize = 3;
    let Waiting { functions, .. } = &*WAITING.lock();
    let still = || functions.iter().filter(|(_, taken)| taken.still_waits(busy));
    let (_, TakenFunction { thread, running }) = still().next()?;
    // A library's kernel has two handles, so the names are counted.
    let kernels: BTreeSet<_> = still().filter_map(|(function, _)| handles::name_of(*function)).collect();
    let count = kernels.len();
    (count > 0).then(|| Taken {
        kernels: kernels.into_iter().take(LISTED).collect(),
        count,
        thread: *thread,
        running: running.clone(),
    })
}

/// Forgets launches and functions that wait no more.
pub(crate) fn forget_ended() {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    // If the driver does not answer, something may still wait.
    let Some(busy) = busy::find_all() else { return };
    let mut waiting = WAITING.lock();
    waiting.launches.retain(|_, launch| launch.still_waits(&busy).is_some());
    waiting.functions.retain(|_, taken| taken.still_waits(&busy));
    ANY.store(!waiting.launches.is_empty() || !waiting.functions.is_empty(), Ordering::Relaxed);
}

/// Forgets everything in a forked child, where nothing waits.
pub(crate) fn forked() {
    ANY.store(false, Ordering::Relaxed);
}
