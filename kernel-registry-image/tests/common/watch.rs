//! How long a thread has worked, which other threads and processes do not change.

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

    /// The time that this thread had a processor since then, or where the system does not tell, the time that passed.
    pub fn taken(&self) -> Duration {
        self.worked.and_then(|before| Some(worked()? - before)).unwrap_or_else(|| self.started.elapsed())
    }
}

fn worked() -> Option<Duration> {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(statistics.split(' ').next()?.parse().ok()?))
}
