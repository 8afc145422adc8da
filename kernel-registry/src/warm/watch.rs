//! Waiting for the driver, but not for ever.
//!
//! Loading waits for the kernels that run in the context. If they never end, no call can be cancelled; so a thread of
//! its own makes the calls, says which one it makes, and is left behind if one of them takes too long.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::state::lock;

/// How long each kind of call may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// A call that waits for the device.
    pub(super) device: Duration,
    /// A function with `#[warmup]`.
    pub(super) hook: Duration,
}

/// What a thread that warms is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: &'static str,
    /// A kernel's path, an image's file, or nothing.
    pub(super) about: &'static str,
    kind: Kind,
}

/// What can make a call slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Work of this library.
    Computing,
    /// It may have to wait for the device.
    Waiting,
    /// The driver's compiler, after which it may have to wait for the device.
    Compiling,
    /// A function with `#[warmup]`.
    Hook,
}

/// A call that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The device is busy.
    Device(Call),
    /// The function with `#[warmup]` of this path has not returned.
    Hook(&'static str),
}

/// The call that a warm-up is in, for its own caller and for those that wait for their turn.
pub(super) struct Activity {
    now: Mutex<Now>,
    probe: Arc<dyn Fn() + Send + Sync>,
}

struct Now {
    call: Call,
    since: Instant,
    probe: Option<Probe>,
}

/// A call that waits for the device and does nothing else, in a thread of its own.
struct Probe {
    since: Instant,
    returned: Arc<AtomicBool>,
}

impl Activity {
    /// `probe` makes a call that returns at once unless it has to wait for the device.
    pub(super) fn new(probe: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let call = Call { name: "", about: "", kind: Kind::Computing };
        let now = Mutex::new(Now { call, since: Instant::now(), probe: None });
        Arc::new(Activity { now, probe: Arc::new(probe) })
    }

    fn set(&self, name: &'static str, about: &'static str, kind: Kind) {
        let call = Call { name, about, kind };
        *lock(&self.now) = Now { call, since: Instant::now(), probe: None };
    }

    /// Whether the call has taken too long.
    ///
    /// Nothing tells how much of a slow compilation is waiting for the device. So when its time is over, a probe is
    /// started: if that returns, the device is free and the time begins anew; if it does not either, the device is busy.
    fn overdue(&self, timeouts: &Timeouts, at: Instant) -> Option<Overdue> {
        let mut now = lock(&self.now);
        let Now { call, since, .. } = *now;
        let elapsed = at.saturating_duration_since(since);
        match call.kind {
            Kind::Waiting if elapsed >= timeouts.device => Some(Overdue::Device(call)),
            Kind::Hook if elapsed >= timeouts.hook => Some(Overdue::Hook(call.about)),
            Kind::Compiling if elapsed >= timeouts.device => match &now.probe {
                None => {
                    now.probe = Some(Probe::start(self.probe.clone(), at));
                    None
                }
                Some(probe) if probe.returned.load(Ordering::Acquire) => {
                    (now.since, now.probe) = (at, None);
                    None
                }
                Some(probe) if at.saturating_duration_since(probe.since) >= timeouts.device => {
                    Some(Overdue::Device(call))
                }
                Some(_) => None,
            },
            _ => None,
        }
    }
}

impl Probe {
    fn start(probe: Arc<dyn Fn() + Send + Sync>, at: Instant) -> Self {
        let returned = Arc::new(AtomicBool::new(false));
        let tell = returned.clone();
        let thread = thread::Builder::new().name("kernel-registry probe".to_owned());
        // Without a thread the answer is that the device is busy.
        let _ = thread.spawn(move || {
            probe();
            tell.store(true, Ordering::Release);
        });
        Probe { since: at, returned }
    }
}

/// The worker's progress handle; clones share its state.
#[derive(Clone)]
pub(super) struct Watch<E> {
    activity: Arc<Activity>,
    events: Sender<Message<E>>,
}

enum Message<E> {
    Event(E),
    Done,
}

impl<E> Watch<E> {
    /// The thread is about to make a call that may have to wait for the device.
    pub(super) fn call(&self, call: &'static str, about: &'static str) {
        self.activity.set(call, about, Kind::Waiting);
    }

    /// The thread waits for the driver's compiler.
    pub(super) fn compiles(&self, call: &'static str) {
        self.activity.set(call, "", Kind::Compiling);
    }

    /// The thread runs a function with `#[warmup]`.
    pub(super) fn hook(&self, path: &'static str) {
        self.activity.set("#[warmup]", path, Kind::Hook);
    }

    /// Tells the caller.
    pub(super) fn event(&self, event: E) {
        // Nobody listens after giving up.
        let _ = self.events.send(Message::Event(event));
    }
}

/// Why work in a thread of its own has no result.
#[derive(Debug)]
pub(super) enum NoResult {
    Overdue(Overdue),
    /// The system starts no thread.
    NoThread(std::io::Error),
}

/// Works in a thread of its own and waits for it, unless one call takes too long: then the thread is left to itself, and
/// the call is the error.
pub(super) fn watched<E: Send + 'static, T: Send + 'static>(
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

impl Timeouts {
    /// How often the clock is looked at.
    fn tick(&self) -> Duration {
        (self.device.min(self.hook) / 8).clamp(Duration::from_millis(1), Duration::from_millis(200))
    }
}

/// Lets one warm-up of a context work at a time.
pub(super) struct Turns {
    holder: Mutex<Option<Arc<Activity>>>,
    free: Condvar,
}

impl Turns {
    pub(super) const fn new() -> Self {
        Turns { holder: Mutex::new(None), free: Condvar::new() }
    }

    /// Waits until no other warm-up is at work, unless that one has been in a call for too long.
    pub(super) fn take(&self, activity: &Arc<Activity>, timeouts: &Timeouts) -> Result<(), Overdue> {
        let mut holder = lock(&self.holder);
        while let Some(other) = &*holder {
            if let Some(overdue) = other.overdue(timeouts, Instant::now()) {
                return Err(overdue);
            }
            let waited = self.free.wait_timeout(holder, timeouts.tick());
            holder = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        *holder = Some(activity.clone());
        Ok(())
    }

    /// Ends the turn.
    pub(super) fn end(&self) {
        *lock(&self.holder) = None;
        self.free.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts { device: Duration::from_secs(30), hook: Duration::from_secs(60) };

    fn overdue_after(activity: &Activity, seconds: u64) -> Option<Overdue> {
        let since = lock(&activity.now).since;
        activity.overdue(&TIMEOUTS, since + Duration::from_secs(seconds))
    }

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
    fn each_call_has_its_own_time() {
        let activity = Activity::new(|| {});
        activity.set("cuModuleLoadData", "a.cubin", Kind::Waiting);
        assert_eq!(overdue_after(&activity, 29), None);
        let Some(Overdue::Device(call)) = overdue_after(&activity, 30) else { panic!("it is overdue") };
        assert_eq!(call.about, "a.cubin");
        activity.set("cuModuleLoadData", "b.cubin", Kind::Waiting);
        assert_eq!(overdue_after(&activity, 29), None);
    }

    #[test]
    fn computing_is_never_overdue_and_a_hook_has_another_time() {
        let activity = Activity::new(|| {});
        assert_eq!(overdue_after(&activity, 1_000_000), None);
        activity.set("#[warmup]", "app::hook", Kind::Hook);
        assert_eq!(overdue_after(&activity, 59), None);
        assert_eq!(overdue_after(&activity, 60), Some(Overdue::Hook("app::hook")));
    }

    #[test]
    fn compiling_is_overdue_only_if_the_device_is_busy() {
        let (keep, never) = mpsc::channel::<()>();
        let never = Mutex::new(never);
        let busy = Activity::new(move || {
            let _ = lock(&never).recv();
        });
        busy.set("cuLibraryLoadData", "", Kind::Compiling);
        assert_eq!(overdue_after(&busy, 30), None, "the probe starts");
        assert_eq!(overdue_after(&busy, 59), None, "the probe has its own time");
        assert!(overdue_after(&busy, 60).is_some());
        drop(keep);

        let (asked, answers) = mpsc::channel();
        let asked = Mutex::new(asked);
        let free = Activity::new(move || lock(&asked).send(()).expect("the test listens"));
        free.set("cuLibraryLoadData", "", Kind::Compiling);
        let begun = lock(&free.now).since;
        assert_eq!(overdue_after(&free, 30), None);
        answers.recv().expect("the probe was asked");
        while lock(&free.now).since == begun {
            let later = begun + Duration::from_secs(31);
            assert_eq!(free.overdue(&TIMEOUTS, later), None);
        }
        assert_eq!(overdue_after(&free, 29), None, "the time has begun anew");
    }

    #[test]
    fn a_turn_is_waited_for_unless_the_other_is_overdue() {
        let turns = Turns::new();
        let (first, second) = (Activity::new(|| {}), Activity::new(|| {}));
        turns.take(&first, &TIMEOUTS).expect("nobody has it");
        first.set("cuModuleLoadData", "a.cubin", Kind::Waiting);
        lock(&first.now).since -= Duration::from_secs(31);
        assert!(matches!(turns.take(&second, &TIMEOUTS), Err(Overdue::Device(_))));
        first.set("cuModuleLoadData", "b.cubin", Kind::Waiting);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(&second, &TIMEOUTS));
            turns.end();
            assert_eq!(waiting.join().expect("no panic"), Ok(()));
        });
    }

    #[test]
    #[should_panic(expected = "as expected")]
    fn panics_pass_through() {
        watched_at_once(|_| panic!("as expected"));
    }
}
