//! A sampling profiler for stretches of time: from ready on, or between two marks of the program. A thread
//! samples each of the program's threads every millisecond. A stretch is recorded once it has ended. Does
//! nothing without the option `first`.

mod answer;
mod groups;
mod names;
mod native;
mod samples;
mod threads;

use std::ffi::{CStr, c_char};
use std::mem;
use std::sync::{Arc, Once};
use std::thread;
use std::time::{Duration, Instant};

use crate::options::Audit;
use crate::watch::process::fork;
use crate::watch::process::locked::Locked;
use crate::watch::process::threads as own_threads;
use crate::watch::python;
use crate::watch::record::recording::{self, nanoseconds, now};
use answer::Reader;
use samples::{Samples, Stretch};
use threads::Threads;

/// Limits the stretches of a process, because a service can mark each request.
const MOST: u32 = 64;

/// The sampling interval.
const STEP: Duration = Duration::from_millis(1);

/// The minimum pause between samples, as a multiple of the work for one.
const REST: u32 = 4;

/// The minimum pause between samples, as a multiple of a thread's interruption.
const INTERRUPTION_REST: u32 = 25;

/// How long exit waits for stretches to be recorded.
const AT_EXIT: Duration = Duration::from_secs(2);

/// The name of the stretch that starts at ready.
const FROM_READY: &str = "ready";

#[derive(Default)]
struct State {
    current: Option<Arc<Stretch>>,
    /// Stretches that haven't been recorded yet, and their ends.
    ended: Vec<(Arc<Stretch>, u64)>,
    /// The number of stretches so far.
    count: u32,
    /// Whether the sampling thread runs.
    is_sampling: bool,
    /// The number of threads that are recording a stretch.
    writers: u32,
}

static STATE: Locked<State> = Locked::new();

impl State {
    fn end(&mut self, at: u64) {
        if let Some(stretch) = self.current.take() {
            let at = at.min(stretch.ends);
            self.ended.push((stretch, at));
        }
    }

    fn is_recorded(&self) -> bool {
        !self.is_sampling && self.writers == 0
    }
}

/// Starts a stretch with this name, and ends the current one. Null or an empty name only ends it.
///
/// # Safety
///
/// `name` is null, or ends with a zero.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub unsafe extern "C" fn kernel_registry_audit_mark(name: *const c_char) {
    if Audit::chosen().first.is_none() || !recording::is_possible() {
        return;
    }
    // SAFETY: the caller's promise.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy());
    begin(name.as_deref().unwrap_or_default());
}

fn begin(name: &str) {
    let Some(longest) = Audit::chosen().first else { return };
    let at = now();
    let mut state = STATE.lock();
    state.end(at);
    if name.is_empty() || state.count >= MOST {
        return;
    }
    state.count += 1;
    let ends = at.saturating_add(nanoseconds(longest));
    state.current = Some(Arc::new(Stretch { name: name.to_owned(), number: state.count, begun: at, ends }));
    if !mem::replace(&mut state.is_sampling, true) {
        drop(state);
        start();
    }
}

/// Starts the stretch from ready on, unless the program has marked one itself.
pub(crate) fn begin_at_ready() {
    if Audit::chosen().first.is_some() && STATE.lock().count == 0 {
        begin(FROM_READY);
    }
}

fn start() {
    static ONCE: Once = Once::new();
    fork::call_once(&ONCE, || {
        extern "C" fn at_exit() {
            STATE.lock().end(now());
            let begun = Instant::now();
            while !STATE.lock().is_recorded() && begun.elapsed() < AT_EXIT {
                thread::sleep(STEP);
            }
        }
        // SAFETY: `at_exit` takes no arguments, and is never unloaded.
        unsafe { libc::atexit(at_exit) };
    });
    if let Err(error) = own_threads::start(sample_threads) {
        recording::mark_thread_lacking(&error, "where the time goes is unknown");
        let mut state = STATE.lock();
        (state.is_sampling, state.current) = (false, None);
        state.ended.clear();
    }
}

/// Samples all threads until there's no current stretch.
fn sample_threads() {
    let (mut reader, mut threads) = (Reader::default(), Threads::default());
    let mut sampled = None::<(Arc<Stretch>, Samples)>;
    loop {
        let (begun, waited) = (Instant::now(), reader.waited);
        // The interpreter's cleanup isn't part of the last request.
        let is_finalizing = python::is_finalizing() == Some(true);
        let (current, ended) = {
            let mut state = STATE.lock();
            let time = now();
            if state.current.as_ref().is_some_and(|stretch| is_finalizing || time >= stretch.ends) {
                state.end(time);
            }
            let ended = mem::take(&mut state.ended);
            state.writers += ended.len() as u32;
            state.is_sampling = state.current.is_some();
            (state.current.clone(), ended)
        };
        for (stretch, end) in ended {
            let samples = sampled.take_if(|(its, _)| Arc::ptr_eq(its, &stretch));
            record(stretch, end, samples.map(|(_, samples)| samples).unwrap_or_default());
        }
        let Some(stretch) = current else { return };
        let (_, samples) = sampled.get_or_insert_with(|| (stretch.clone(), Samples::from(stretch.begun)));
        samples.take(&mut reader, &mut threads);
        let took = begun.elapsed();
        let worked = took.saturating_sub(reader.waited - waited);
        let rest = mem::take(&mut reader.interrupted) * INTERRUPTION_REST;
        thread::sleep(STEP.saturating_sub(took).max(worked * REST).max(rest));
    }
}

/// Symbolizes the samples and records them. This takes too long for the sampling thread, so it has its own.
fn record(stretch: Arc<Stretch>, end: u64, mut samples: Samples) {
    samples.end(end.saturating_sub(stretch.begun));
    let write = move || {
        groups::write(&stretch, end, &samples);
        STATE.lock().writers -= 1;
    };
    if own_threads::start(write).is_err() {
        STATE.lock().writers -= 1;
    }
}
