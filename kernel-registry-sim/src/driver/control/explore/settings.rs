//! How much of a test is explored, and how much was.

use std::fmt;
use std::thread;
use std::time::Duration;

use kernel_registry_schedule::{Coverage, Limits};

/// How many orders of a test are tried, and which: see [`explore`](crate::explore).
#[derive(Clone, Debug)]
pub struct Explore {
    pub(super) limits: Limits,
    pub(super) has_little_room: bool,
    pub(super) longest: Duration,
}

impl Default for Explore {
    /// Up to 1,000 schedules, for up to a minute.
    fn default() -> Self {
        let width = thread::available_parallelism().map_or(1, usize::from);
        let limits = Limits { schedules: 1000, time: Duration::from_secs(60), seed: 1, depth: 3, width };
        Explore { limits, has_little_room: true, longest: Duration::from_secs(30) }
    }
}

impl Explore {
    /// Sets how many schedules are tried at most.
    pub fn schedules(mut self, schedules: u64) -> Self {
        self.limits.schedules = schedules;
        self
    }

    /// Sets how long schedules are tried. To make a failing one shorter takes up to half as long again.
    pub fn time(mut self, time: Duration) -> Self {
        self.limits.time = time;
        self
    }

    /// Sets the seed of the schedules by chance.
    pub fn seed(mut self, seed: u64) -> Self {
        self.limits.seed = seed;
        self
    }

    /// Sets the depth of failures that schedules by chance find: how many steps have to be in a certain order.
    pub fn depth(mut self, depth: u32) -> Self {
        self.limits.depth = depth.max(1);
        self
    }

    /// Sets whether kernels may have room for one block only, as next to another kernel. Blocks of a cooperative launch always
    /// have room for all. By default they may.
    pub fn little_room(mut self, has_little_room: bool) -> Self {
        self.has_little_room = has_little_room;
        self
    }

    /// Sets how long one run may take before it counts as endless. The default is 30 seconds.
    pub fn longest_run(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }
}

/// How much of a test was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explored {
    /// How many schedules were tried.
    pub schedules: u64,
    /// Whether these are all there are.
    pub is_complete: bool,
    pub(super) words: String,
}

impl fmt::Display for Explored {
    /// Writes which schedules were tried: `all 96 schedules there are`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl From<&Coverage> for Explored {
    fn from(coverage: &Coverage) -> Self {
        let schedules = coverage.schedules + coverage.chance.as_ref().map_or(0, |chance| chance.schedules);
        Explored { schedules, is_complete: coverage.exhausted, words: coverage.to_string() }
    }
}
