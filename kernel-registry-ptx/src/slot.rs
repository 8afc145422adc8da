//! Defines registers and addresses as operands of decoded instructions, and lists the special registers.

use crate::address::Space;

/// A register operand. The two highest bits name the owner of the rows, and the other bits are the index of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(pub u32);

/// The owner of the rows that a slot indexes.
pub(crate) enum Rows {
    /// The registers of the running function.
    Register,
    /// The rows of the grid: its special registers, and the constants of the program.
    Grid,
    Block,
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

/// The special registers of a grid, in the order of their rows. The last one is not from PTX: it holds the start of
/// dynamic shared memory.
pub(crate) const GRID: &str = "%ntid.x %ntid.y %ntid.z %nctaid.x %nctaid.y %nctaid.z %nclusterid.x %nclusterid.y %nclusterid.z \
    %cluster_nctaid.x %cluster_nctaid.y %cluster_nctaid.z %cluster_nctarank %dynamic_smem_size %total_smem_size %nwarpid \
    %is_explicit_cluster %gridid %smid %nsmid %envreg1 %envreg2 %aggr_smem_size %reserved_smem_offset_begin \
    %reserved_smem_offset_end %reserved_smem_offset_cap %reserved_smem_offset_0 %reserved_smem_offset_1 dynamic-shared";

/// The name of that last register, which PTX cannot contain.
pub(crate) const DYNAMIC_SHARED: &str = "dynamic-shared";

const BLOCK: &str = "%ctaid.x %ctaid.y %ctaid.z %clusterid.x %clusterid.y %clusterid.z %cluster_ctaid.x %cluster_ctaid.y \
    %cluster_ctaid.z %cluster_ctarank";

const WARP: &str =
    "%tid.x %tid.y %tid.z %laneid %warpid %lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt";

/// Returns the slot of a special register whose value does not change while a thread runs.
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
