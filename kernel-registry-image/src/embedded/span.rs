//! Where an image may begin and end.

use std::ops::Range;

/// An image whose exact beginning and end are not known.
pub(super) struct Start {
    /// Where it may begin, the likeliest first.
    pub(super) beginnings: Vec<usize>,
    /// The numbers of its possible ends.
    pub(super) ends: Range<usize>,
}

/// A place where an image may end: everything that has to be in it is before this place.
pub(super) struct End {
    pub(super) earliest: usize,
    /// Behind zeros and space.
    pub(super) with_filler: usize,
    /// Behind comments, too.
    pub(super) with_comments: usize,
}

impl End {
    pub(super) fn at(place: usize) -> Self {
        End { earliest: place, with_filler: place, with_comments: place }
    }
}
