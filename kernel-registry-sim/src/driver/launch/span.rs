//! Describes a span: multiprocessors with consecutive numbers, either all of a device or those of a green context.

use crate::driver::config::device::Device;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl Span {
    /// Returns all multiprocessors of a device. A device without any counts as having one.
    pub(crate) fn whole(device: &Device) -> Self {
        Span { first: 0, count: device.processors.max(1) }
    }

    pub(crate) fn end(self) -> u32 {
        self.first + self.count
    }

    pub(crate) fn contains(self, processor: u32) -> bool {
        (self.first..self.end()).contains(&processor)
    }

    /// Returns how many multiprocessors are in both spans.
    pub(crate) fn shared_with(self, other: Span) -> u32 {
        self.end().min(other.end()).saturating_sub(self.first.max(other.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_share_the_multiprocessors_that_are_in_both() {
        let span = |first, count| Span { first, count };
        assert_eq!(span(0, 8).shared_with(span(8, 124)), 0);
        assert_eq!(span(0, 132).shared_with(span(8, 16)), 16);
        assert_eq!(span(4, 8).shared_with(span(0, 8)), 4);
        assert!(span(8, 8).contains(8) && span(8, 8).contains(15) && !span(8, 8).contains(16));
    }
}
