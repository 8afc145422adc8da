//! Places times and events on the axis of a timeline.

use crate::record::Event;

/// Lengths in units of the timeline, which are pixels on a wide screen.
pub(super) const WIDTH: f64 = 1000.0;
pub(super) const NAMES: f64 = 170.0;
/// The smallest width of a bar.
pub(super) const NARROWEST: f64 = 3.0;

/// An event on the axis of the timeline.
#[derive(Clone, Copy)]
pub(super) struct Span<'a> {
    pub(super) event: &'a Event,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl<'a> Span<'a> {
    /// Places an event of a process that began `offset` nanoseconds later than the first process. A hang lasts until
    /// its call returned, or until the record ended.
    pub(super) fn new(event: &'a Event, offset: u64) -> Self {
        let from = offset.saturating_add(event.begun);
        Span { event, from, to: from.saturating_add(event.took) }
    }
}

/// Returns the x coordinate of a time.
pub(super) fn x(time: u64, end: u64) -> f64 {
    NAMES + time as f64 / end as f64 * WIDTH
}
