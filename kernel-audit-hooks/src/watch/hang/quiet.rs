//! Records where the main thread is while the process makes no calls: it may wait for another process, whose call hangs.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::options::Audit;
use crate::watch::python;
use crate::watch::record::recording;
use crate::watch::record::slots;

/// How often the place of the main thread is read.
const STEP: Duration = Duration::from_secs(1);

/// The most different places that are recorded, because a record has little room for texts.
const MOST: u32 = 100;

/// What was seen of the process's calls.
pub(super) struct Quiet {
    calls: u64,
    /// When the last call was seen.
    since: Instant,
    looked: Option<Instant>,
    /// What is recorded, and how many times something else was.
    recorded: String,
    count: u32,
}

impl Quiet {
    pub(super) fn new() -> Self {
        Quiet { calls: 0, since: Instant::now(), looked: None, recorded: String::new(), count: 0 }
    }

    /// Looks at the calls of the process, and at the main thread if there are none. A process becomes quiet before a call of another counts as
    /// one that hangs.
    pub(super) fn look(&mut self) {
        let calls =
            slots::slots().map(|(_, slot)| slot.sequence.load(Ordering::Relaxed)).fold(0, u64::wrapping_add);
        let calls = calls.wrapping_add(recording::record().header.calls.load(Ordering::Relaxed));
        if calls != self.calls {
            (self.calls, self.since, self.looked) = (calls, Instant::now(), None);
            self.record(String::new());
        } else if self.since.elapsed() >= Audit::chosen().hang_after / 2
            && self.looked.is_none_or(|at| at.elapsed() >= STEP)
            && let Some(frames) = python::frames_of_main_thread()
        {
            self.looked = Some(Instant::now());
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
