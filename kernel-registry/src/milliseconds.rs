//! Durations as numbers of milliseconds, as reports show and serialize them.

use std::time::Duration;

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(feature = "serde")]
pub(crate) fn serialize<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(milliseconds(*time))
}
