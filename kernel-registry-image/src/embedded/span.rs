//! Defines the offsets at which an image may begin and end.

use std::ops::Range;

/// The beginning of an image whose exact bounds aren't known.
pub(super) struct Start {
    /// The offsets at which it may begin, the likeliest first.
    pub(super) beginnings: Vec<usize>,
    /// The indices of its possible ends.
    pub(super) ends: Range<usize>,
}

/// The offsets at which an image may end.
pub(super) struct End {
    /// Everything that must be in the image is before this offset.
    pub(super) earliest: usize,
    /// The offset after the zeros and space that follow.
    pub(super) with_filler: usize,
    /// The offset after the comments that follow the zeros and space.
    pub(super) with_comments: usize,
}

impl End {
    pub(super) fn at(offset: usize) -> Self {
        End { earliest: offset, with_filler: offset, with_comments: offset }
    }
}
