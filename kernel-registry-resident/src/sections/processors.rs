//! Identifies the multiprocessors that resident kernels run on.

use kernel_registry_cuda::fit::Launch;

use crate::driver::GreenId;

/// Identifies a part of a device, and the split that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartId {
    pub(crate) green: GreenId,
    /// The number of the split. Parts of one split don't overlap; parts of two splits may.
    pub(crate) split: u64,
}

/// All multiprocessors of a device, or the multiprocessors of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Processors {
    pub(crate) device: usize,
    pub(crate) part: Option<PartId>,
    pub(crate) count: u32,
}

impl Processors {
    /// Returns whether both may share a multiprocessor.
    pub(super) fn overlap(self, other: Processors) -> bool {
        let disjoint = |(one, another): (PartId, PartId)| one.split == another.split && one != another;
        self.device == other.device && !self.part.zip(other.part).is_some_and(disjoint)
    }
}

/// A resident kernel, and the multiprocessors that it runs on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ResidentGrid {
    /// The kernel's path.
    pub(crate) kernel: &'static str,
    pub(crate) launch: Launch,
    pub(crate) on: Processors,
}

impl ResidentGrid {
    /// Returns this launch as seen from `processors`, some of which it may share. Assumes the worst case:
    /// each of them has as many blocks as the kernel's fullest multiprocessor.
    pub(crate) fn launch_on(&self, processors: Processors) -> Launch {
        if self.on == processors {
            return self.launch;
        }
        let blocks_on_each = self.launch.grid.div_ceil(u64::from(self.on.count.max(1)));
        Launch { grid: blocks_on_each.saturating_mul(processors.count.into()), ..self.launch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processors(part: Option<(u64, u64)>, count: u32) -> Processors {
        let part = part.map(|(green, split)| PartId { green: GreenId::for_tests(green), split });
        Processors { device: 0, part, count }
    }

    #[test]
    fn only_parts_of_one_split_do_not_overlap() {
        let (whole, small, rest) =
            (processors(None, 132), processors(Some((1, 1)), 8), processors(Some((2, 1)), 124));
        let other_split = processors(Some((3, 2)), 8);
        assert!(!small.overlap(rest) && small.overlap(small));
        assert!(small.overlap(whole) && whole.overlap(rest));
        assert!(small.overlap(other_split) && rest.overlap(other_split));
        assert!(!whole.overlap(Processors { device: 1, ..whole }));
    }

    #[test]
    fn other_multiprocessors_count_as_having_the_most_blocks() {
        let grid = |on, grid| ResidentGrid { kernel: "k", launch: Launch { grid, ..Launch::default() }, on };
        let (whole, small) = (processors(None, 132), processors(Some((1, 1)), 8));
        assert_eq!(grid(small, 16).launch_on(whole).grid, 2 * 132);
        assert_eq!(grid(whole, 132).launch_on(small).grid, 8);
        assert_eq!(grid(whole, 133).launch_on(small).grid, 16);
        assert_eq!(grid(whole, 133).launch_on(whole).grid, 133);
    }
}
