//! Finds why calls were slow: the kernels that ran while they waited.

use kernel_registry_cuda::rules::{self, Rule};

use crate::causes;
use crate::record::InProgress;
use crate::watch::hang::busy;
use crate::watch::known::handles;
use crate::watch::process::locked::Locked;
use crate::watch::record::call;

/// The cause of a call's waiting.
pub(crate) struct Wait {
    thread: u32,
    sequence: u64,
    pub(crate) rule: &'static Rule,
    /// A kernel that ran while the call waited.
    pub(crate) kernel: String,
}

/// Causes that the waiting threads have not collected yet.
static WAITS: Locked<Vec<Wait>> = Locked::new();

/// The most causes that are kept. Older causes are of calls that were not slow enough to be recorded.
const MOST: usize = 64;

/// Asks which streams are busy during a call that may wait for the device, and keeps the cause.
pub(crate) fn look(call: InProgress) {
    let InProgress { thread, sequence, .. } = call;
    let mut rules = rules::of(call::name(call.call - 1), !call.loads);
    let Some(rule) = rules.find(|rule| causes::waits_for_device(rule)) else { return };
    let busy = busy::find_all().unwrap_or_default();
    let Some(kernel) = busy.iter().find_map(|stream| handles::name_of(stream.kernel)) else { return };
    let mut waits = WAITS.lock();
    if waits.len() >= MOST {
        waits.remove(0);
    }
    waits.push(Wait { thread, sequence, rule, kernel });
}

/// Collects what a thread's call waited for, once it has returned.
pub(crate) fn take(thread: u32, sequence: u64) -> Option<Wait> {
    let mut waits = WAITS.lock();
    let index = waits.iter().position(|wait| (wait.thread, wait.sequence) == (thread, sequence))?;
    Some(waits.swap_remove(index))
}
