//! The nodes of graphs: adding them, removing them, and what they are.

use super::copy::Copy3;
use super::fill::Fill;
use super::node_parameters::{Host, Kernel, OldKernel, Parameters};
use crate::driver::abi::{In, Out};
use crate::driver::graph::Task;
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};
use crate::driver::state::{State, begin};

/// Adds a node that does what `task` answers.
pub(super) fn add(
    node: &Out<Handle>,
    graph: Handle,
    after: &In<Handle>,
    count: usize,
    task: impl FnOnce(&mut State) -> Answer<Task>,
) -> Answer {
    let mut state = begin()?;
    let after = after.all(count)?;
    state.may_add(graph, &after)?;
    node.ready()?;
    let task = task(&mut state)?;
    node.set(state.add_node(graph, task, &after)?)
}

/// A clone of a graph, for the node of another.
fn child(state: &mut State, graph: Handle) -> Answer<Task> {
    state.has_no_memory(graph)?;
    Ok(Task::Child(state.clone_graph(graph, true)?))
}

fn add_any(
    node: &Out<Handle>,
    graph: Handle,
    after: &In<Handle>,
    count: usize,
    parameters: &In<Parameters>,
) -> Answer {
    let parameters = parameters.get()?;
    add(node, graph, after, count, |state| match parameters.child() {
        Some(of) => child(state, of),
        None => parameters.task(state),
    })
}

calls! {
    10000 fn cuGraphAddKernelNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<OldKernel>,
    ) {
        add(&node, graph, &after, count, |state| Kernel::from(parameters.get()?).task(state))
    }

    12000 fn cuGraphAddKernelNode_v2(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<Kernel>,
    ) {
        add(&node, graph, &after, count, |state| parameters.get()?.task(state))
    }

    10000 fn cuGraphAddMemcpyNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, copy: In<Copy3>, context: Handle,
    ) {
        add(&node, graph, &after, count, |state| copy.get()?.task(state, context))
    }

    10000 fn cuGraphAddMemsetNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, fill: In<Fill>, context: Handle,
    ) {
        add(&node, graph, &after, count, |state| fill.get()?.task(state, context))
    }

    10000 fn cuGraphAddHostNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, host: In<Host>,
    ) {
        add(&node, graph, &after, count, |_| host.get()?.task())
    }

    10000 fn cuGraphAddChildGraphNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, of: Handle,
    ) {
        add(&node, graph, &after, count, |state| child(state, of))
    }

    10000 fn cuGraphAddEmptyNode(node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize) {
        add(&node, graph, &after, count, |_| Ok(Task::Nothing))
    }

    11010 fn cuGraphAddEventRecordNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, recorded: Handle,
    ) {
        add(&node, graph, &after, count, |state| state.events.get(recorded).map(|_| Task::Record(recorded)))
    }

    11010 fn cuGraphAddEventWaitNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, awaited: Handle,
    ) {
        add(&node, graph, &after, count, |state| state.events.get(awaited).map(|_| Task::Wait(awaited)))
    }

    12020 fn cuGraphAddNode(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<Parameters>,
    ) {
        add_any(&node, graph, &after, count, &parameters)
    }

    12030 fn cuGraphAddNode_v2(
        node: Out<Handle>, graph: Handle, after: In<Handle>, _edges: In<[u8; 8]>, count: usize,
        parameters: In<Parameters>,
    ) {
        add_any(&node, graph, &after, count, &parameters)
    }

    13040 fn cuGraphAddNode_v3(
        node: Out<Handle>, graph: Handle, after: In<Handle>, _edges: In<[u8; 8]>, count: usize,
        parameters: In<Parameters>,
    ) {
        add_any(&node, graph, &after, count, &parameters)
    }

    10000 fn cuGraphNodeGetType(node: Handle, kind: Out<u32>) {
        let state = begin()?;
        kind.set(state.nodes.get(node)?.task.kind())
    }

    10000 fn cuGraphDestroyNode(node: Handle) {
        let mut state = begin()?;
        let graph = state.nodes.get(node)?.graph;
        state.has_no_memory(graph)?;
        let removed = state.nodes.remove(node)?;
        let graph = state.graphs.get_mut(removed.graph)?;
        graph.nodes.retain(|other| *other != node);
        for other in graph.nodes.clone() {
            state.nodes.get_mut(other)?.after.retain(|before| *before != node);
        }
        match removed.task {
            Task::Child(child) => state.remove_graph(child),
            _ => Ok(()),
        }
    }

    10000 fn cuGraphChildGraphNodeGetGraph(node: Handle, graph: Out<Handle>) {
        match begin()?.nodes.get(node)?.task {
            Task::Child(child) => graph.set(child),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
