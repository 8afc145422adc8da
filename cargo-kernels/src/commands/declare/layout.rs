//! Sizes and alignments of structs, and what an image tells of them.

use kernel_registry_image::ParamLayout;

/// The size and alignment of a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Layout {
    pub(super) size: u32,
    pub(super) align: u32,
    /// Whether the image tells the alignment.
    pub(super) is_certain: bool,
}

impl Layout {
    pub(super) fn from_image(layout: &ParamLayout) -> Layout {
        let ParamLayout { offset, size, align, .. } = *layout;
        // An alignment divides size and offset. The guess is the largest such power of two, at most 8.
        let guess = || 1 << size.trailing_zeros().min(offset.trailing_zeros()).min(3);
        Layout { size, align: align.unwrap_or_else(guess), is_certain: align.is_some() }
    }

    /// Joins two layouts, if they agree.
    pub(super) fn or(self, other: Layout) -> Option<Layout> {
        match (self.is_certain, other.is_certain) {
            _ if self.size != other.size => None,
            (true, true) => (self.align == other.align).then_some(self),
            (true, false) => Some(self),
            (false, true) => Some(other),
            (false, false) => Some(Layout { align: self.align.min(other.align), ..self }),
        }
    }
}
