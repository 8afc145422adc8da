//! Memory that graphs allocate and free by nodes: its address is fixed when the allocating node is made.

use std::sync::Arc;

/// The address of such memory, shared by the nodes and steps that allocate and free it. When all of them are gone, so is the
/// memory, unless it is allocated at that time.
#[derive(Clone)]
pub(crate) struct Allocation(pub(crate) Arc<usize>);

impl Allocation {
    pub(crate) fn address(&self) -> usize {
        *self.0
    }
}

/// What the driver knows of it beside its block.
pub(crate) struct Known {
    pub(crate) allocation: Allocation,
    /// Whether it is allocated once all is done that was submitted.
    pub(crate) will_be_there: bool,
}
