//! Memory that nodes of graphs allocate and free. Its address is fixed when the allocating node is made.

use std::sync::Arc;

/// The address of such memory. The nodes that allocate and free it share it. The memory is freed with the last of
/// them, or later if it is allocated then.
#[derive(Clone)]
pub(crate) struct Allocation(pub(crate) Arc<usize>);

impl Allocation {
    pub(crate) fn address(&self) -> usize {
        *self.0
    }
}

/// What the driver knows of such memory beside its block.
pub(crate) struct Known {
    pub(crate) allocation: Allocation,
    /// Whether it will be allocated when all submitted work is done.
    pub(crate) will_be_there: bool,
}
