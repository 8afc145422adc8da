//! Repeated measurements of one time: their median, and other quantiles.

use std::time::Duration;

/// The times of repeated runs.
#[derive(Clone, Debug, Default)]
pub struct Sample(Vec<Duration>);

impl Sample {
    /// Adds a measurement.
    pub fn push(&mut self, time: Duration) {
        let at = self.0.partition_point(|other| *other < time);
        self.0.insert(at, time);
    }

    /// Returns the median in seconds, which a few disturbed runs don't change.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns this quantile of the times, in seconds.
    pub fn quantile(&self, fraction: f64) -> f64 {
        let last = self.0.len().saturating_sub(1) as f64;
        let (below, above) = ((last * fraction).floor(), (last * fraction).ceil());
        let at = |index: f64| self.0.get(index as usize).map_or(f64::NAN, Duration::as_secs_f64);
        at(below) + (at(above) - at(below)) * (last * fraction - below)
    }
}
