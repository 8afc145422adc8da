//! The axis of a timeline.

use crate::record::Event;

/// Units of length, which are pixels on a wide screen.
pub(super) const WIDTH: f64 = 1000.0;
pub(super) const NAMES: f64 = 170.0;
/// Bars are at least so wide.
pub(super) const NARROWEST: f64 = 3.0;

/// An event on the axis of the timeline.
#[derive(Clone, Copy)]
pub(super) struct Span<'a> {
    pub(super) event: &'a Event,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl<'a> Span<'a> {
    /// Places an event of a process that began this much later than the first. A hang lasts until it ended, or until the record did.
    pub(super) fn new(event: &'a Event, offset: u64) -> Self {
        let from = offset.saturating_add(event.begun);
        Span { event, from, to: from.saturating_add(event.took) }
    }
}

/// The place of a time.
pub(super) fn x(time: u64, end: u64) -> f64 {
    NAMES + time as f64 / end as f64 * WIDTH
}
