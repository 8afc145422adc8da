//! Finds where the time of a stretch goes: from ready on, or between two marks of the program. A thread of the audit
//! looks each millisecond at what each thread of the program does, and where. The stretch is recorded when it has ended.
//! Without the option `first` nothing is looked at.

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

/// The most stretches of a process: a service can mark each request.
const MOST: u32 = 64;

/// The time between two looks.
const STEP: Duration = Duration::from_millis(1);

/// How many times longer than the work of a look the time to the next one is at least.
const REST: u32 = 4;

/// How many times longer than the interruption of a thread the time to the next one is at least.
const UNDISTURBED: u32 = 25;

/// How long the end of the process waits until stretches are recorded.
const AT_EXIT: Duration = Duration::from_secs(2);

/// The name of the stretch that begins when the program is ready.
const FROM_READY: &str = "ready";

#[derive(Default)]
struct State {
    current: Option<Arc<Stretch>>,
    /// Stretches whose samples are not recorded yet, and when they ended.
    ended: Vec<(Arc<Stretch>, u64)>,
    /// The number of stretches so far, also of those that are not looked at.
    count: u32,
    /// Whether a thread looks.
    looks: bool,
    /// The number of threads that record.
    record: u32,
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
        !self.looks && self.record == 0
    }
}

/// Begins a stretch of this name, and ends the one before. Null or an empty name only ends.
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

/// Begins a stretch of this name, and ends the one before. An empty name only ends.
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
    if !mem::replace(&mut state.looks, true) {
        drop(state);
        start();
    }
}

/// Begins the stretch from ready on, unless the program has marked a stretch itself.
pub(crate) fn begin_at_ready() {
    if Audit::chosen().first.is_some() && STATE.lock().count == 0 {
        begin(FROM_READY);
    }
}

fn start() {
    static ONCE: Once = Once::new();
    fork::undivided(|| {
        ONCE.call_once(|| {
            extern "C" fn at_exit() {
                STATE.lock().end(now());
                let begun = Instant::now();
                while !STATE.lock().is_recorded() && begun.elapsed() < AT_EXIT {
                    thread::sleep(STEP);
                }
            }
            // SAFETY: `at_exit` is called without arguments, and stays where it is.
            unsafe { libc::atexit(at_exit) };
        })
    });
    if let Err(error) = own_threads::start(look) {
        recording::mark_thread_lacking(&error, "it is not known where the time goes");
        let mut state = STATE.lock();
        (state.looks, state.current) = (false, None);
        state.ended.clear();
    }
}

/// Looks at the threads until no stretch is left.
fn look() {
    let (mut reader, mut threads) = (Reader::default(), Threads::default());
    let mut looked = None::<(Arc<Stretch>, Samples)>;
    loop {
        let (begun, waited) = (Instant::now(), reader.waited);
        // A request doesn't include what Python frees at its end.
        let is_ending = python::is_ending() == Some(true);
        let (current, ended) = {
            let mut state = STATE.lock();
            let time = now();
            if state.current.as_ref().is_some_and(|stretch| is_ending || time >= stretch.ends) {
                state.end(time);
            }
            let ended = mem::take(&mut state.ended);
            state.record += ended.len() as u32;
            state.looks = state.current.is_some();
            (state.current.clone(), ended)
        };
        for (stretch, end) in ended {
            let samples = looked.take_if(|(its, _)| Arc::ptr_eq(its, &stretch));
            record(stretch, end, samples.map(|(_, samples)| samples).unwrap_or_default());
        }
        let Some(stretch) = current else { return };
        let (_, samples) = looked.get_or_insert_with(|| (stretch.clone(), Samples::from(stretch.begun)));
        samples.look(&mut reader, &mut threads);
        let took = begun.elapsed();
        let worked = took.saturating_sub(reader.waited - waited);
        let undisturbed = mem::take(&mut reader.interrupted) * UNDISTURBED;
        thread::sleep(STEP.saturating_sub(took).max(worked * REST).max(undisturbed));
    }
}

/// Names what was seen, and records it. That can take longer than the next stretch may wait, so a thread of its own does
/// it.
fn record(stretch: Arc<Stretch>, end: u64, mut samples: Samples) {
    samples.end(end.saturating_sub(stretch.begun));
    let write = move || {
        groups::write(&stretch, end, &samples);
        STATE.lock().record -= 1;
    };
    if own_threads::start(write).is_err() {
        STATE.lock().record -= 1;
    }
}
