//! Memory that graphs allocate: it has its address from when the node is made, and is there from one node to another.

use std::sync::Arc;

/// What the nodes and steps of graphs share that allocate or free the same memory. When all are gone, so is the memory, unless
/// it was allocated and not freed.
#[derive(Clone, Debug)]
pub(super) struct Allocation(pub(super) Arc<usize>);

impl Allocation {
    pub(super) fn address(&self) -> usize {
        *self.0
    }
}

/// What is known of it beside its block.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) allocation: Allocation,
    /// Whether it is allocated once all is done that was submitted.
    pub(super) will_be_there: bool,
}
