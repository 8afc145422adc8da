//! Nodes that allocate memory, and nodes that free it.

use super::context::current;
use super::device::device;
use super::node::add;
use super::pool::{Properties, allocate_in_graph, free_in_graph};
use crate::driver::abi::{In, Out};
use crate::driver::graph::Task;
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};
use crate::driver::state::begin;
use crate::driver::stream::Work;

/// `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Parameters {
    properties: Properties,
    accesses: usize,
    access_count: usize,
    bytes: usize,
    /// Where it is, which the driver says.
    address: usize,
}

/// The address of what a node allocates, or frees, and its size.
fn memory_of(node: Handle, allocates: bool) -> Answer<(usize, usize)> {
    match &begin()?.nodes.get(node)?.task {
        Task::Work(Work::Appear(allocation, is_there), _) if *is_there == allocates => {
            Ok((allocation.address(), allocation.bytes))
        }
        _ => Err(Code::INVALID_VALUE),
    }
}

calls! {
    11040 fn cuGraphAddMemAllocNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: Out<Parameters>,
    ) {
        let mut given = parameters.get()?;
        parameters.ready()?;
        add(&node, graph, &after, count, |state| {
            let device = given.properties.origin.device(state)?;
            let (task, address) = allocate_in_graph(state, given.bytes, current()?, device)?;
            given.address = address;
            Ok(task)
        })?;
        parameters.set(given)
    }

    11040 fn cuGraphAddMemFreeNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, address: usize,
    ) {
        add(&node, graph, &after, count, |state| free_in_graph(state, address, current()?))
    }

    11040 fn cuGraphMemAllocNodeGetParams(node: Handle, parameters: Out<Parameters>) {
        let (address, bytes) = memory_of(node, true)?;
        let state = begin()?;
        let ordinal = state.memory.lock().find(address, 1).map_or(0, |(_, block)| block.device);
        let properties = Properties::of_device(ordinal);
        parameters.set(Parameters { properties, accesses: 0, access_count: 0, bytes, address })
    }

    11040 fn cuGraphMemFreeNodeGetParams(node: Handle, address: Out<usize>) {
        address.set(memory_of(node, false)?.0)
    }

    11040 fn cuDeviceGraphMemTrim(ordinal: i32) {
        // Nothing is kept that no graph has.
        device(&*begin()?, ordinal).map(drop)
    }
}
