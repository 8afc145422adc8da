//! Writes times for people.

use std::fmt;
use std::iter::Sum;

/// Nanoseconds as people read them: `50.8 us`, `200.4 ms`, `1.25 s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

/// Adds times without overflow, because damaged records can have any times.
impl Sum<u64> for Time {
    fn sum<I: Iterator<Item = u64>>(times: I) -> Time {
        Time(times.fold(0, u64::saturating_add))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            nanoseconds @ 0..1_000_000 => format!("{:.1} us", nanoseconds as f64 / 1e3),
            nanoseconds @ 1_000_000..1_000_000_000 => format!("{:.1} ms", nanoseconds as f64 / 1e6),
            nanoseconds => format!("{:.2} s", nanoseconds as f64 / 1e9),
        };
        f.pad(&text)
    }
}
