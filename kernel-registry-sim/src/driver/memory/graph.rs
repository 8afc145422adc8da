//! Describes memory that nodes of graphs allocate and free. The memory's address is fixed when the allocating node is
//! captured.

use std::sync::Arc;

/// The address of graph memory, shared by the nodes that allocate and free it. The memory is freed when the last of
/// these nodes is gone, but not while a launch has it allocated.
#[derive(Clone)]
pub(crate) struct Allocation(pub(crate) Arc<usize>);

impl Allocation {
    pub(crate) fn address(&self) -> usize {
        *self.0
    }
}

/// Facts about graph memory in addition to its `Block`.
pub(crate) struct Known {
    pub(crate) allocation: Allocation,
    /// Whether it will be allocated when all submitted work is done.
    pub(crate) allocated_after_pending_work: bool,
}
