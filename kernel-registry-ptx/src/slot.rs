//! Defines registers and addresses as operands of decoded instructions, and lists the special registers.

use crate::address::Space;

/// A register operand. A row is a register's values, one per lane. The two highest bits of a slot say where
/// the row is (in the running function, grid, block or warp), and the other bits are the row's index there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Slot(pub u32);

/// Where the row of a slot is.
pub(crate) enum Rows {
    /// The registers of the running function.
    Register,
    /// The grid's special registers, and the constants of the program.
    Grid,
    /// The block's special registers.
    Block,
    /// The warp's special registers.
    Warp,
}

impl Slot {
    pub(crate) fn new(rows: Rows, index: usize) -> Self {
        Self((rows as u32) << 30 | index as u32)
    }

    #[inline(always)]
    pub(crate) fn rows(self) -> Rows {
        match self.0 >> 30 {
            0 => Rows::Register,
            1 => Rows::Grid,
            2 => Rows::Block,
            _ => Rows::Warp,
        }
    }

    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        (self.0 & ((1 << 30) - 1)) as usize
    }
}

/// The special registers of a grid, in the order of their rows. The last register isn't from PTX: it holds
/// the start of dynamic shared memory.
pub(crate) const GRID: &str = "%ntid.x %ntid.y %ntid.z %nctaid.x %nctaid.y %nctaid.z %nclusterid.x %nclusterid.y %nclusterid.z \
    %cluster_nctaid.x %cluster_nctaid.y %cluster_nctaid.z %cluster_nctarank %dynamic_smem_size %total_smem_size %nwarpid \
    %is_explicit_cluster %gridid %smid %nsmid %envreg1 %envreg2 %aggr_smem_size %reserved_smem_offset_begin \
    %reserved_smem_offset_end %reserved_smem_offset_cap %reserved_smem_offset_0 %reserved_smem_offset_1 dynamic-shared";

/// The name of the last register of [`GRID`]. No register of PTX can have this name.
pub(crate) const DYNAMIC_SHARED: &str = "dynamic-shared";

const BLOCK: &str = "%ctaid.x %ctaid.y %ctaid.z %clusterid.x %clusterid.y %clusterid.z %cluster_ctaid.x %cluster_ctaid.y \
    %cluster_ctaid.z %cluster_ctarank";

const WARP: &str =
    "%tid.x %tid.y %tid.z %laneid %warpid %lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt";

/// Returns the slot of a special register whose value doesn't change while a thread runs.
pub(crate) fn special(name: &str) -> Option<Slot> {
    let find = |rows, names: &str| Some(Slot::new(rows, names.split(' ').position(|found| found == name)?));
    find(Rows::Grid, GRID).or_else(|| find(Rows::Block, BLOCK)).or_else(|| find(Rows::Warp, WARP))
}

/// An address operand: a register plus an offset.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    pub space: Space,
    pub base: Slot,
    pub offset: i64,
}
