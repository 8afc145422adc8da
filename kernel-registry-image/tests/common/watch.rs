//! Measures the processor time of a thread, unaffected by other threads and processes.

use std::fs;
use std::time::{Duration, Instant};

pub struct Watch {
    started: Instant,
    worked: Option<Duration>,
}

impl Watch {
    pub fn start() -> Self {
        Watch { started: Instant::now(), worked: worked() }
    }

    /// Returns the processor time of this thread since the start, or the elapsed time if the operating system
    /// doesn't report it.
    pub fn taken(&self) -> Duration {
        self.worked.and_then(|before| Some(worked()? - before)).unwrap_or_else(|| self.started.elapsed())
    }
}

fn worked() -> Option<Duration> {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(statistics.split(' ').next()?.parse().ok()?))
}
