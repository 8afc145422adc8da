//! Memory that nodes of graphs allocate and free. Its address is fixed when the allocating node is made.

use std::sync::Arc;

/// The address of such memory, which the allocating and the freeing nodes share. The memory is freed when the last node is gone, but not
/// while a launch has it allocated.
#[derive(Clone)]
pub(crate) struct Allocation(pub(crate) Arc<usize>);

impl Allocation {
    pub(crate) fn address(&self) -> usize {
        *self.0
    }
}

/// What the driver knows of such memory in addition to its `Block`.
pub(crate) struct Known {
    pub(crate) allocation: Allocation,
    /// Whether it will be allocated when all submitted work is done.
    pub(crate) will_be_there: bool,
}
