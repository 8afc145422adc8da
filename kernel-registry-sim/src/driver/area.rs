//! Bytes in rows, and in layers of rows: what is copied and filled in two and three dimensions.

use super::memory::{copy, fill};

/// Where a box of bytes is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) start: usize,
    /// Bytes from one row to the next.
    pub(super) row: usize,
    /// Bytes from one layer to the next.
    pub(super) layer: usize,
}

/// How large a box is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    /// Bytes of a row.
    pub(super) width: usize,
    pub(super) rows: usize,
    pub(super) layers: usize,
}

impl Extent {
    pub(super) fn is_empty(self) -> bool {
        self.width == 0 || self.rows == 0 || self.layers == 0
    }
}

impl Area {
    /// From the first byte of a box to its last, unless there is no such number.
    pub(super) fn span(self, extent: Extent) -> Option<usize> {
        let rows = self.row.checked_mul(extent.rows.saturating_sub(1))?;
        let layers = self.layer.checked_mul(extent.layers.saturating_sub(1))?;
        layers.checked_add(rows)?.checked_add(extent.width)
    }

    fn rows(self, extent: Extent) -> impl Iterator<Item = usize> {
        let rows =
            move |layer| (0..extent.rows).map(move |row| self.start + layer * self.layer + row * self.row);
        (0..extent.layers).flat_map(rows)
    }

    pub(super) fn copy_from(self, from: Area, extent: Extent) {
        for (to, from) in self.rows(extent).zip(from.rows(extent)) {
            copy(to, from, extent.width);
        }
    }

    /// Fills a box with a pattern of 1, 2 or 4 bytes.
    pub(super) fn fill(self, extent: Extent, pattern: u32, width: usize) {
        self.rows(extent).for_each(|to| fill(to, pattern, width, extent.width / width));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_copied_and_what_is_beside_it_is_not() {
        let from: Vec<u8> = (0..60).collect();
        let mut to = vec![0_u8; 60];
        let area = |start: usize| Area { start, row: 5, layer: 20 };
        let extent = Extent { width: 2, rows: 2, layers: 2 };
        assert_eq!(area(0).span(extent), Some(27));
        area(to.as_mut_ptr().expose_provenance()).copy_from(area(from.as_ptr().expose_provenance()), extent);
        let copied: Vec<_> = to.iter().copied().filter(|byte| *byte != 0).collect();
        assert_eq!(copied, [1, 5, 6, 20, 21, 25, 26]);
        area(to.as_mut_ptr().expose_provenance()).fill(extent, 7, 1);
        assert_eq!(to.iter().filter(|byte| **byte == 7).count(), 8);
    }
}
