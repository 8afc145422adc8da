//! The call that a warming thread is making, and whether this call takes too long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::lock::lock;

/// How long a driver call may wait for the device by default.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a driver call may take while the device is free, even on a busy host. A call that has taken less time does not prove
/// that the device is busy.
pub(crate) const LEAST_TIMEOUT: Duration = Duration::from_millis(100);

/// How long each kind of call may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// A call that waits for the device.
    pub(crate) device: Duration,
    /// A `#[warmup]` function.
    pub(crate) hook: Duration,
}

impl Timeouts {
    /// Returns the time between two checks of the clock.
    pub(super) fn tick(&self) -> Duration {
        (self.device.min(self.hook) / 8).clamp(Duration::from_millis(1), Duration::from_millis(200))
    }
}

/// A call of a warming thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// The subject of the call: a kernel's path, an image's file, or an empty string.
    pub(crate) about: &'static str,
    kind: Kind,
}

/// The kind of a call, by what the call may spend its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Work of this library, without a driver call.
    Computing,
    /// Waiting for the device.
    Waiting,
    /// Compiling in the driver, then waiting for the device.
    Compiling,
    /// A `#[warmup]` function.
    Hook,
}

/// A call that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The device is busy.
    Device(Call),
    /// The `#[warmup]` function of this path has not returned.
    Hook(&'static str),
}

/// The call that a warm-up is making. The thread that called for the warm-up reads it, and so do warm-ups that wait for their
/// turn.
pub(crate) struct Activity {
    now: Mutex<Now>,
    probe: Arc<dyn Fn() + Send + Sync>,
}

struct Now {
    call: Call,
    since: Instant,
    probe: Option<Probe>,
}

/// A call that only waits for the device, in a separate thread.
struct Probe {
    since: Instant,
    returned: Arc<AtomicBool>,
}

impl Activity {
    /// Creates the activity of a warm-up that makes no call yet. `probe` makes a driver call that returns at once unless it has to
    /// wait for the device.
    pub(crate) fn new(probe: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let call = Call { name: "", about: "", kind: Kind::Computing };
        let now = Mutex::new(Now { call, since: Instant::now(), probe: None });
        Arc::new(Activity { now, probe: Arc::new(probe) })
    }

    pub(super) fn set(&self, name: &'static str, about: &'static str, kind: Kind) {
        let call = Call { name, about, kind };
        *lock(&self.now) = Now { call, since: Instant::now(), probe: None };
    }

    /// Moves the start of the call into the past.
    #[cfg(test)]
    pub(super) fn make_older(&self, by: Duration) {
        lock(&self.now).since -= by;
    }

    /// Returns the call if it has taken too long.
    ///
    /// A call that compiles may still be compiling, or may be waiting for the device. So when its time is over, a probe starts.
    /// If the probe returns, the device is free, and the time of the call starts again. If the probe takes too long as well, the
    /// device is busy.
    pub(super) fn overdue(&self, timeouts: &Timeouts, at: Instant) -> Option<Overdue> {
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
        let has_returned = returned.clone();
        let thread = thread::Builder::new().name("kernel-registry probe".to_owned());
        // If no thread can be started, the probe never returns, so the device counts as busy.
        let _ = thread.spawn(move || {
            probe();
            has_returned.store(true, Ordering::Release);
        });
        Probe { since: at, returned }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const TIMEOUTS: Timeouts = Timeouts { device: Duration::from_secs(30), hook: Duration::from_secs(60) };

    fn overdue_after(activity: &Activity, seconds: u64) -> Option<Overdue> {
        let since = lock(&activity.now).since;
        activity.overdue(&TIMEOUTS, since + Duration::from_secs(seconds))
    }

    #[test]
    fn each_call_has_its_own_time_limit() {
        let activity = Activity::new(|| {});
        activity.set("cuModuleLoadData", "a.cubin", Kind::Waiting);
        assert_eq!(overdue_after(&activity, 29), None);
        let Some(Overdue::Device(call)) = overdue_after(&activity, 30) else { panic!("it is overdue") };
        assert_eq!(call.about, "a.cubin");
        activity.set("cuModuleLoadData", "b.cubin", Kind::Waiting);
        assert_eq!(overdue_after(&activity, 29), None);
    }

    #[test]
    fn computing_is_never_overdue_and_a_hook_has_its_own_limit() {
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
        assert_eq!(overdue_after(&free, 29), None, "the time has started again");
    }
}
