//! Finds the streams that are busy. Asking a stream never waits for the device, even while a load waits.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUresult, CUstream, CUstreamCaptureStatus};

use crate::record::{Running, Work};
use crate::watch::known::{contexts, handles};
use crate::watch::loader::real::driver_function;
use crate::watch::process::threads;
use crate::watch::record::launches::{self, Stream, WAIT};

/// How long the driver may take to answer.
const MOMENT: Duration = Duration::from_millis(500);

/// Whether a thread of [`ask_apart`] is asking. If the driver never answers, that thread is left behind.
static ASKING_APART: AtomicBool = AtomicBool::new(false);

/// Clears [`ASKING_APART`] once the thread has asked, or could not be started.
struct AsksApart;

impl Drop for AsksApart {
    fn drop(&mut self) {
        ASKING_APART.store(false, Ordering::SeqCst);
    }
}

/// The number of threads that are asking.
static ASKING: AtomicU32 = AtomicU32::new(0);

/// The number of contexts that are ending, plus 1 once the process is ending.
static ENDING: AtomicU32 = AtomicU32::new(0);

/// Makes a call that ends a context. Until it returns, no thread begins to ask about streams, except for the
/// explanation of a hang.
pub(crate) fn without_questions<T>(call: impl FnOnce() -> T) -> T {
    ENDING.fetch_add(1, Ordering::SeqCst);
    await_answers();
    let result = call();
    ENDING.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Stops threads from asking, because the driver ends with the process.
pub(crate) extern "C" fn end() {
    ENDING.fetch_add(1, Ordering::SeqCst);
    await_answers();
}

/// Waits for the threads that are asking, but not for long: the driver may not answer them.
fn await_answers() {
    let begun = Instant::now();
    while ASKING.load(Ordering::SeqCst) > 0 && begun.elapsed() < MOMENT / 5 {
        thread::sleep(Duration::from_micros(20));
    }
}

/// Resets the counts in a forked child, where no thread asks.
pub(crate) fn forked() {
    ASKING_APART.store(false, Ordering::SeqCst);
    ASKING.store(0, Ordering::SeqCst);
    ENDING.store(0, Ordering::SeqCst);
}

/// Returns the busy streams except `stream`. Asks in this thread, which is about to load a kernel.
pub(crate) fn find_others(stream: Option<u64>) -> Vec<Stream> {
    ask(|its| Some(its.handle) != stream).unwrap_or_default()
}

/// Returns all busy streams. Asks in a thread of its own, which is left behind if the driver does not answer. Returns
/// `None` if the driver does not answer, as long as such a thread exists, and while a context ends.
pub(crate) fn find_all() -> Option<Vec<Stream>> {
    ask_apart(Duration::ZERO, || ask(|_| true))
}

/// Returns all busy streams while a call hangs. Unlike [`find_all`], this asks even while a context ends, because the
/// hanging call may be ending it.
pub(crate) fn find_beside_hang() -> Option<Vec<Stream>> {
    ask_apart(MOMENT, || Some(ask_beside_hang(|_| true)))
}

/// Asks in a thread of its own. There is only one such thread: `wait` says how long to wait for a thread that was left
/// behind.
fn ask_apart(
    wait: Duration,
    ask: impl FnOnce() -> Option<Vec<Stream>> + Send + 'static,
) -> Option<Vec<Stream>> {
    let begun = Instant::now();
    while ASKING_APART.swap(true, Ordering::SeqCst) {
        if begun.elapsed() >= wait {
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let asks = AsksApart;
    let answer = move || {
        let _asks = asks;
        ask()
    };
    threads::answer(answer, MOMENT)?
}

/// Describes what runs in a stream.
pub(crate) fn running(stream: &Stream) -> Running {
    let Stream { handle, kernel, thread, .. } = *stream;
    let what = match handles::name_of(kernel) {
        _ if kernel == WAIT => Work::Wait,
        Some(symbol) => Work::Kernel { symbol: symbol.into() },
        None => Work::Handle { handle: kernel },
    };
    Running { stream: handle, what, thread, is_own: false }
}

/// Asks the streams in which kernels were launched. Does not ask streams that are being captured, because asking ends
/// the capture. Returns `None` while a context ends.
fn ask(wanted: impl Fn(&Stream) -> bool) -> Option<Vec<Stream>> {
    while_counted(|| (ENDING.load(Ordering::SeqCst) == 0).then(|| busy(wanted)))
}

/// Asks as `ask` does, but also while a context ends.
fn ask_beside_hang(wanted: impl Fn(&Stream) -> bool) -> Vec<Stream> {
    while_counted(|| busy(wanted))
}

/// Counts this thread among those that are asking, during `ask`.
fn while_counted<T>(ask: impl FnOnce() -> T) -> T {
    ASKING.fetch_add(1, Ordering::SeqCst);
    let answer = ask();
    ASKING.fetch_sub(1, Ordering::SeqCst);
    answer
}

fn busy(wanted: impl Fn(&Stream) -> bool) -> Vec<Stream> {
    driver_function!(static QUERY = cuStreamQuery(CUstream));
    driver_function!(static IS_CAPTURING = cuStreamIsCapturing(CUstream, *mut CUstreamCaptureStatus));
    let (Some(query), Some(is_capturing)) = (QUERY.get(), IS_CAPTURING.get()) else { return Vec::new() };
    let is_busy = |stream: &Stream| {
        let its = ptr::without_provenance_mut::<c_void>(stream.handle as usize).cast();
        let mut capture = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the handle was that of a stream. The driver refuses a stream that is gone.
        unsafe {
            is_capturing(its, &mut capture) == CUresult::CUDA_SUCCESS
                && capture == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
                && query(its) == CUresult::CUDA_ERROR_NOT_READY
        }
    };
    // In this mode the thread does not take part in the captures of other threads.
    let mode = contexts::exchange_capture_mode(contexts::RELAXED);
    let mut busy = HashMap::new();
    // A default stream is that of the current context, so each context is made current.
    for context in contexts::list() {
        contexts::within(context, || {
            let used = launches::streams().filter(|(_, stream)| stream.kernel > 0 && wanted(stream));
            busy.extend(used.filter(|(_, stream)| is_busy(stream)));
        });
    }
    contexts::exchange_capture_mode(mode);
    let mut busy: Vec<_> = busy.into_values().collect();
    busy.sort_by_key(|stream| stream.handle);
    busy
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    #[test]
    fn one_thread_is_left_behind_while_the_driver_does_not_answer() {
        let (asked, (answer, answered)) = (Arc::new(AtomicU32::new(0)), mpsc::channel::<()>());
        let ask = |wait, until: Option<mpsc::Receiver<()>>| {
            let asked = asked.clone();
            ask_apart(wait, move || {
                asked.fetch_add(1, Ordering::SeqCst);
                until.map(|until| until.recv());
                Some(Vec::new())
            })
        };
        assert!(ask(Duration::ZERO, Some(answered)).is_none());
        for _ in 0..10 {
            assert!(ask(Duration::ZERO, None).is_none());
        }
        assert!(ask(Duration::from_millis(20), None).is_none(), "it waits a while");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        answer.send(()).unwrap();
        assert!(ask(Duration::from_secs(60), None).is_some(), "until there is an answer");
    }
}
