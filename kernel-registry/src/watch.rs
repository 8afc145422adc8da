//! Runs driver calls in a separate thread, with a time limit for each call.
//!
//! Loading waits for the kernels that run in the context. If these kernels never end, the call never returns, and it cannot be
//! cancelled. So a separate thread makes the calls and announces each call. If a call takes too long, the thread is left
//! behind. A separate thread costs 2 ms per thousand kernels, because the memory that a new thread uses is fresh.

mod activity;
mod turns;

use std::panic;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use activity::Kind;
pub(crate) use activity::{Activity, LEAST_TIMEOUT, Overdue, TIMEOUT, Timeouts};
pub(crate) use turns::Turns;

/// The handle by which the separate thread announces its calls and sends events. Clones share its state.
#[derive(Clone)]
pub(crate) struct Watch<E> {
    activity: Arc<Activity>,
    events: Sender<Message<E>>,
}

enum Message<E> {
    Event(E),
    Done,
}

impl<E> Watch<E> {
    /// Announces a call that may have to wait for the device.
    pub(crate) fn call(&self, call: &'static str, about: &'static str) {
        self.activity.set(call, about, Kind::Waiting);
    }

    /// Announces work without a driver call, which is never overdue.
    pub(crate) fn computes(&self) {
        self.activity.set("", "", Kind::Computing);
    }

    /// Announces a call of the driver's compiler.
    pub(crate) fn compiles(&self, call: &'static str) {
        self.activity.set(call, "", Kind::Compiling);
    }

    /// Announces a `#[warmup]` function.
    pub(crate) fn hook(&self, path: &'static str) {
        self.activity.set("#[warmup]", path, Kind::Hook);
    }

    /// Sends an event to the waiting thread.
    pub(crate) fn event(&self, event: E) {
        // Sending fails if the waiting thread has stopped waiting.
        let _ = self.events.send(Message::Event(event));
    }
}

/// Why the work in a separate thread has no result.
#[derive(Debug)]
pub(crate) enum NoResult {
    Overdue(Overdue),
    /// The operating system could not start a thread.
    NoThread(std::io::Error),
}

/// Runs `work` in a separate thread and waits for it. If a call takes too long, leaves the thread behind and returns the
/// call as the error.
pub(crate) fn watched<E: Send + 'static, T: Send + 'static>(
    activity: Arc<Activity>,
    timeouts: &Timeouts,
    mut on_event: impl FnMut(E),
    work: impl FnOnce(&Watch<E>) -> T + Send + 'static,
) -> Result<T, NoResult> {
    let (events, received) = mpsc::channel();
    let watch = Watch { activity: activity.clone(), events: events.clone() };
    let thread = thread::Builder::new().name("kernel-registry".to_owned());
    let thread = thread.spawn(move || {
        let result = work(&watch);
        let _ = events.send(Message::Done);
        result
    });
    let thread = thread.map_err(NoResult::NoThread)?;

    loop {
        match received.recv_timeout(timeouts.tick()) {
            Ok(Message::Event(event)) => on_event(event),
            Ok(Message::Done) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(overdue) = activity.overdue(timeouts, Instant::now()) {
                    return Err(NoResult::Overdue(overdue));
                }
            }
        }
    }
    thread.join().map_or_else(|panicked| panic::resume_unwind(panicked), Ok)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::activity::Call;
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts { device: Duration::from_secs(30), hook: Duration::from_secs(60) };

    fn watched_at_once<T: Send + 'static>(work: impl FnOnce(&Watch<u32>) -> T + Send + 'static) -> T {
        watched(Activity::new(|| {}), &TIMEOUTS, |_| {}, work).expect("it ends")
    }

    #[test]
    fn results_and_events_arrive() {
        let mut events = Vec::new();
        let work = |watch: &Watch<u32>| {
            watch.event(1);
            watch.event(2);
            "done"
        };
        let result = watched(Activity::new(|| {}), &TIMEOUTS, |event| events.push(event), work);
        assert_eq!((result.expect("it ends"), events), ("done", vec![1, 2]));
    }

    #[test]
    fn a_call_that_never_ends_is_named() {
        let (keep, never) = mpsc::channel::<()>();
        let short = Timeouts { device: Duration::from_millis(10), ..TIMEOUTS };
        let work = move |watch: &Watch<()>| {
            watch.call("cuModuleLoadData", "a.cubin");
            never.recv()
        };
        match watched(Activity::new(|| {}), &short, |()| {}, work) {
            Err(NoResult::Overdue(Overdue::Device(Call { name, about, .. }))) => {
                assert_eq!((name, about), ("cuModuleLoadData", "a.cubin"));
            }
            other => panic!("{other:?}"),
        }
        drop(keep);
    }

    #[test]
    #[should_panic(expected = "as expected")]
    fn panics_pass_through() {
        watched_at_once(|_| panic!("as expected"));
    }
}
