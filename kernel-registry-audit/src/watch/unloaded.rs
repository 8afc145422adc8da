//! Kernels that were launched before they were loaded, while others ran. Their launches have returned, and they wait on the device.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::watch::locked::Locked;
use crate::watch::watched::{Call, Stream, WAIT, thread};
use crate::watch::{busy, known};

/// The first launch of a kernel that was not loaded.
#[derive(Clone)]
pub(crate) struct UnloadedLaunch {
    kernel: String,
    stream: u64,
    thread: u32,
    /// The library that made the launch, and the function in it.
    caller: String,
    /// The streams that were busy.
    running: Vec<Stream>,
}

impl UnloadedLaunch {
    pub(crate) fn new(call: Call, kernel: String, caller: String, running: Vec<Stream>) -> Self {
        UnloadedLaunch { kernel, stream: call.stream, thread: thread(), caller, running }
    }

    /// Whether it still waits, for some of what ran before it.
    fn still_waits(&self, busy: &[Stream]) -> Option<UnloadedLaunch> {
        let is_busy = |stream: u64| busy.iter().any(|busy| busy.handle == stream);
        let mut still = self.clone();
        still.running.retain(|before| is_busy(before.handle));
        (is_busy(self.stream) && !still.running.is_empty()).then_some(still)
    }
}

impl fmt::Display for UnloadedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnloadedLaunch { kernel, stream, thread, caller, running } = self;
        write!(f, "Kernel `{kernel}` was not loaded when thread {thread} launched it in stream {stream:#x}")?;
        if !caller.is_empty() {
            write!(f, " (at {caller})")?;
        }
        let running: Vec<_> = running.iter().map(name).collect();
        write!(f, ", while {}: it waits on the device until nothing runs there", running.join(" and "))
    }
}

fn name(stream: &Stream) -> String {
    match known::named(stream.kernel) {
        _ if stream.kernel == WAIT => format!("stream {:#x} waited for a word in memory", stream.handle),
        Some(kernel) => format!("`{kernel}` ran in stream {:#x}", stream.handle),
        None => format!("kernel {:#x} ran in stream {:#x}", stream.kernel, stream.handle),
    }
}

/// The launches that may still wait, by their streams.
static LAUNCHES: Locked<HashMap<u64, UnloadedLaunch>> = Locked::new();

/// Whether there are any.
static ANY: AtomicBool = AtomicBool::new(false);

/// A kernel was launched that was not loaded, while others ran.
pub(crate) fn launched(launch: UnloadedLaunch) {
    LAUNCHES.lock().insert(launch.stream, launch);
    ANY.store(true, Ordering::Relaxed);
}

/// The launches that still wait while these streams are busy.
pub(crate) fn waiting(busy: &[Stream]) -> Vec<UnloadedLaunch> {
    let launches = LAUNCHES.lock();
    let mut waiting: Vec<_> = launches.values().filter_map(|launch| launch.still_waits(busy)).collect();
    waiting.sort_by_key(|launch| launch.stream);
    waiting
}

/// Forgets the launches that wait no longer.
pub(crate) fn forget_ended() {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    // A driver that does not answer has something that waits.
    let Some(busy) = busy::all() else { return };
    let mut launches = LAUNCHES.lock();
    launches.retain(|_, launch| launch.still_waits(&busy).is_some());
    ANY.store(!launches.is_empty(), Ordering::Relaxed);
}

pub(crate) fn forked() {
    LAUNCHES.renew();
    ANY.store(false, Ordering::Relaxed);
}
