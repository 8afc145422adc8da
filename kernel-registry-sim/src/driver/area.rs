//! Bytes in rows, and in layers of rows: what is copied and filled in two and three dimensions.

use super::memory::{Gone, Memory};

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
        // Many rows of nothing are none.
        let layers = if extent.is_empty() { 0 } else { extent.layers };
        (0..layers).flat_map(rows)
    }

    pub(super) fn copy_from(self, memory: &Memory, from: Area, extent: Extent) -> Result<(), Gone> {
        self.rows(extent)
            .zip(from.rows(extent))
            .try_for_each(|(to, from)| memory.copy(to, from, extent.width))
    }

    /// Fills a box with a pattern of 1, 2 or 4 bytes.
    pub(super) fn fill(
        self,
        memory: &Memory,
        extent: Extent,
        pattern: u32,
        width: usize,
    ) -> Result<(), Gone> {
        self.rows(extent).try_for_each(|to| memory.fill(to, pattern, width, extent.width / width))
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
        let memory = Memory::default();
        let start = area(to.as_mut_ptr().expose_provenance());
        assert_eq!(start.copy_from(&memory, area(from.as_ptr().expose_provenance()), extent), Ok(()));
        let copied: Vec<_> = to.iter().copied().filter(|byte| *byte != 0).collect();
        assert_eq!(copied, [1, 5, 6, 20, 21, 25, 26]);
        assert_eq!(start.fill(&memory, extent, 7, 1), Ok(()));
        assert_eq!(to.iter().filter(|byte| **byte == 7).count(), 8);
    }
}
