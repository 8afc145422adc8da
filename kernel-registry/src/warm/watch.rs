//! Waiting for the driver, but not for ever.
//!
//! Loading waits for whatever runs on the device. If that never ends, no call can be cancelled; so a thread of its own
//! makes the calls, says which one it makes, and is left behind if one of them takes too long.

use std::panic;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What the thread is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Doing {
    /// Which one it is: two calls can look alike.
    count: u64,
    waiting: Waiting,
    /// Whether the device can make it wait.
    can_wait: bool,
}

impl Doing {
    const NOTHING: Doing = Doing { count: 0, waiting: Waiting { call: "", about: "" }, can_wait: false };
}

/// A call of the driver, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) call: &'static str,
    /// A kernel's path, an image's file, or nothing.
    pub(super) about: &'static str,
}

/// Through which the thread tells the one that waits what it does. Clones tell the same.
#[derive(Clone)]
pub(super) struct Watch<E> {
    doing: Arc<Mutex<Doing>>,
    events: Sender<Message<E>>,
}

enum Message<E> {
    Event(E),
    Done,
}

impl<E> Watch<E> {
    /// For work that cannot have to wait. Nobody listens.
    pub(super) fn unwatched() -> Self {
        Watch { doing: Arc::new(Mutex::new(Doing::NOTHING)), events: mpsc::channel().0 }
    }

    /// The thread is about to make a call that may have to wait for the device.
    pub(super) fn call(&self, call: &'static str, about: &'static str) {
        self.set(Waiting { call, about }, true);
    }

    /// The thread is busy by itself, however long that takes.
    pub(super) fn busy(&self, call: &'static str) {
        self.set(Waiting { call, about: "" }, false);
    }

    /// Tells whoever waits.
    pub(super) fn event(&self, event: E) {
        // Nobody listens after giving up.
        let _ = self.events.send(Message::Event(event));
    }

    fn set(&self, waiting: Waiting, can_wait: bool) {
        let mut doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        *doing = Doing { count: doing.count + 1, waiting, can_wait };
    }
}

/// Does something in a thread of its own and waits for it, unless one call takes longer than `patience`: then the
/// thread is left to itself, and the call is the error.
pub(super) fn watched<E: Send + 'static, T: Send + 'static>(
    patience: Duration,
    mut on_event: impl FnMut(E),
    work: impl FnOnce(&Watch<E>) -> T + Send + 'static,
) -> Result<T, Waiting> {
    let doing = Arc::new(Mutex::new(Doing::NOTHING));
    let (events, received) = mpsc::channel();
    let watch = Watch { doing: doing.clone(), events: events.clone() };
    let thread = thread::Builder::new().name("kernel-registry".to_owned());
    let thread = thread.spawn(move || {
        let result = work(&watch);
        let _ = events.send(Message::Done);
        result
    });
    let thread = thread.expect("a process that cannot start a thread cannot load kernels either");

    let tick = (patience / 8).clamp(Duration::from_millis(1), Duration::from_millis(200));
    let (mut last, mut since) = (Doing::NOTHING, Instant::now());
    loop {
        match received.recv_timeout(tick) {
            Ok(Message::Event(event)) => on_event(event),
            Ok(Message::Done) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let now = *doing.lock().unwrap_or_else(PoisonError::into_inner);
                if now != last {
                    (last, since) = (now, Instant::now());
                } else if now.can_wait && since.elapsed() >= patience {
                    return Err(now.waiting);
                }
            }
        }
    }
    thread.join().map_or_else(|panicked| panic::resume_unwind(panicked), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(40);

    #[test]
    fn results_and_events_arrive() {
        let mut events = Vec::new();
        let result = watched(
            SHORT,
            |event| events.push(event),
            |watch| {
                watch.event(1);
                watch.event(2);
                "done"
            },
        );
        assert_eq!((result, events), (Ok("done"), vec![1, 2]));
    }

    #[test]
    fn a_call_that_never_ends_is_named() {
        let (keep, never) = mpsc::channel::<()>();
        let waiting = watched(
            SHORT,
            |()| {},
            move |watch| {
                watch.call("cuModuleLoadData", "a.cubin");
                never.recv()
            },
        );
        assert_eq!(waiting.err(), Some(Waiting { call: "cuModuleLoadData", about: "a.cubin" }));
        drop(keep);
    }

    #[test]
    fn many_calls_that_each_end_are_waited_for() {
        let result = watched(
            SHORT,
            |()| {},
            |watch| {
                for _ in 0..10 {
                    watch.call("cuModuleLoadData", "a.cubin");
                    thread::sleep(SHORT / 4);
                }
            },
        );
        assert_eq!(result, Ok(()));
    }

    #[test]
    fn compiling_may_take_its_time() {
        let result = watched(
            SHORT,
            |()| {},
            |watch| {
                watch.busy("cuLibraryLoadData");
                thread::sleep(SHORT * 3);
            },
        );
        assert_eq!(result, Ok(()));
    }

    #[test]
    #[should_panic(expected = "as expected")]
    fn panics_pass_through() {
        let _ = watched(SHORT, |()| {}, |_| panic!("as expected"));
    }
}
