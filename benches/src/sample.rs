//! Repeated measurements of one time, and how far to trust their middle.

use std::time::Duration;

/// How long the same thing took, each time that it was done.
#[derive(Clone, Debug, Default)]
pub struct Sample(Vec<Duration>);

impl Sample {
    /// Adds a measurement.
    pub fn push(&mut self, time: Duration) {
        let at = self.0.partition_point(|other| *other < time);
        self.0.insert(at, time);
    }

    /// The middle one, in seconds: a few runs that the machine disturbed do not move it.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// How far the median is likely to be off, in seconds: its standard error, were the times normally
    /// distributed with this distance between their quartiles.
    pub fn uncertainty(&self) -> f64 {
        let deviation = (self.quantile(0.75) - self.quantile(0.25)) / 1.349;
        1.2533 * deviation / (self.0.len() as f64).sqrt()
    }

    /// What this fraction of them is below, in seconds.
    pub fn quantile(&self, fraction: f64) -> f64 {
        let last = self.0.len().saturating_sub(1) as f64;
        let (below, above) = ((last * fraction).floor(), (last * fraction).ceil());
        let at = |index: f64| self.0.get(index as usize).map_or(f64::NAN, Duration::as_secs_f64);
        at(below) + (at(above) - at(below)) * (last * fraction - below)
    }
}
