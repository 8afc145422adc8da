//! Memory that graphs allocate: it has its address from when the node is made, and is there from one node to another.

use std::sync::Arc;

use super::handles::Handle;
use super::memory::{Block, Kind, Memory};
use super::result::{Answer, Code};

/// What the nodes and steps of graphs share that allocate or free the same memory. When all are gone, so is the memory, unless
/// it was allocated and not freed.
#[derive(Clone, Debug)]
pub(super) struct Allocation(Arc<usize>);

impl Allocation {
    pub(super) fn address(&self) -> usize {
        *self.0
    }
}

/// What is known of it beside its block.
#[derive(Debug)]
pub(super) struct Known {
    allocation: Allocation,
    /// Whether it is allocated once all is done that was submitted.
    pub(super) will_be_there: bool,
}

impl Memory {
    /// New memory for graphs, which kernels find only between two nodes.
    pub(super) fn allocate_for_graph(
        &mut self,
        bytes: usize,
        context: Handle,
        device: usize,
    ) -> Answer<Allocation> {
        let address =
            self.allocate(Block { bytes, kind: Kind::Graph { is_there: false }, context, device })?;
        let allocation = Allocation(Arc::new(address));
        self.of_graphs.insert(address, Known { allocation: allocation.clone(), will_be_there: false });
        Ok(allocation)
    }

    /// The memory of graphs that has this address.
    pub(super) fn of_graph(&self, address: usize) -> Answer<Allocation> {
        self.of_graphs.get(&address).map(|known| known.allocation.clone()).ok_or(Code::INVALID_VALUE)
    }

    /// From now on it is there for kernels, or not any more.
    pub(super) fn appear(&mut self, address: usize, is_there: bool) {
        if let Some(block) = self.blocks.get_mut(&address) {
            block.kind = Kind::Graph { is_there };
        }
    }

    /// Memory of graphs can be freed only if a launch has allocated it.
    pub(super) fn may_free(&self, address: usize) -> Answer {
        let known = self.of_graphs.get(&address);
        if known.is_none_or(|known| known.will_be_there) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    /// Notes that what was submitted allocates or frees memory of graphs.
    pub(super) fn will_be_there(&mut self, address: usize, will: bool) {
        if let Some(known) = self.of_graphs.get_mut(&address) {
            known.will_be_there = will;
        }
    }

    /// Frees what no graph has any more, between the turns of kernels.
    pub(super) fn forget_graphs(&mut self) {
        let is_over = |known: &Known| !known.will_be_there && Arc::strong_count(&known.allocation.0) == 1;
        let over: Vec<usize> =
            self.of_graphs.iter().filter(|(_, known)| is_over(known)).map(|(at, _)| *at).collect();
        for address in over {
            // Where it was submitted to be freed, that has to be done first.
            if self.blocks.get(&address).is_none_or(|block| block.kind == Kind::Graph { is_there: false }) {
                self.of_graphs.remove(&address);
                self.free(address);
            }
        }
    }
}
