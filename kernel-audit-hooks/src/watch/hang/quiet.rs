//! Records where the main thread is while the process makes no calls: it may wait for another process, whose call hangs.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::options::Audit;
use crate::watch::python;
use crate::watch::record::recording;
use crate::watch::record::slots;

/// The interval at which the main thread is sampled.
const STEP: Duration = Duration::from_secs(1);

/// The maximum number of samples that are recorded, because a record has little room for texts.
const MOST: u32 = 100;

/// The calls that were seen so far, and the frames that were recorded.
pub(super) struct Quiet {
    calls: u64,
    /// When the last call was seen.
    since: Instant,
    /// When the main thread was sampled last, unless there was a call since.
    sampled: Option<Instant>,
    /// The frames in the record: none if there was a call since.
    recorded: String,
    /// How many times frames were recorded.
    count: u32,
}

impl Quiet {
    pub(super) fn new() -> Self {
        Quiet { calls: 0, since: Instant::now(), sampled: None, recorded: String::new(), count: 0 }
    }

    /// Records the main thread's frames if the process has made no calls for half of `hang_after`. That's before a call
    /// of another process counts as one that hangs.
    pub(super) fn look(&mut self) {
        let calls =
            slots::slots().map(|(_, slot)| slot.sequence.load(Ordering::Relaxed)).fold(0, u64::wrapping_add);
        let calls = calls.wrapping_add(recording::record().header.calls.load(Ordering::Relaxed));
        if calls != self.calls {
            (self.calls, self.since, self.sampled) = (calls, Instant::now(), None);
            self.record(String::new());
        } else if self.since.elapsed() >= Audit::chosen().hang_after / 2
            && self.sampled.is_none_or(|at| at.elapsed() >= STEP)
            && let Some(frames) = python::frames_of_main_thread()
        {
            self.sampled = Some(Instant::now());
            let user = python::find_users_frame(&frames);
            let lines = frames.first().into_iter().chain(user);
            self.record(
                lines.map(|frame| format!("{}:{} {}\n", frame.file, frame.line, frame.function)).collect(),
            );
        }
    }

    fn record(&mut self, frames: String) {
        if frames != self.recorded && (frames.is_empty() || self.count < MOST) {
            self.count += u32::from(!frames.is_empty());
            recording::write_main_thread(&frames);
            self.recorded = frames;
        }
    }
}
