//! Graphs, their arrows, and launching them.

use super::current;
use super::lacking::say_once;
use crate::driver::abi::{In, Out, write_text};
use crate::driver::graph::{Executable, Graph};
use crate::driver::handles::Handle;
use crate::driver::result::{Answer, Code};
use crate::driver::state::{State, begin, begin_with};

/// Where data of arrows goes, of which there is none here: all zeros.
type Data = Out<[u8; 8]>;

/// Writes as many as there is room for, zeros behind them, and how many there are; without a place for them only that.
fn list<const N: usize>(
    found: &[[Handle; N]],
    places: [&Out<Handle>; N],
    data: &Data,
    count: &Out<usize>,
) -> Answer {
    if places.iter().all(|place| place.is_null()) {
        return count.set(found.len());
    }
    let room = count.get()?;
    if room > found.len() && !places.iter().all(|place| place.has_room(room)) {
        return Err(Code::INVALID_VALUE);
    }
    for (which, place) in places.into_iter().enumerate() {
        let values = found.iter().map(|values| values[which]).chain(std::iter::repeat(0));
        place.set_all(values, room)?;
    }
    let written = found.len().min(room);
    count.set(written)?;
    if data.is_null() { Ok(()) } else { data.set_all(std::iter::repeat_n([0; 8], written), written) }
}

fn nodes(
    nodes: &Out<Handle>,
    data: &Data,
    count: &Out<usize>,
    found: impl Iterator<Item = Handle>,
) -> Answer {
    list(&found.map(|node| [node]).collect::<Vec<_>>(), [nodes], data, count)
}

/// All arrows of a graph: which node comes before which.
fn edges(state: &State, of: Handle) -> Answer<Vec<[Handle; 2]>> {
    let mut found = Vec::new();
    for node in &state.graphs.get(of)?.nodes {
        found.extend(state.nodes.get(*node)?.after.iter().map(|before| [*before, *node]));
    }
    Ok(found)
}

fn after(node: Handle, found: &Out<Handle>, data: &Data, count: &Out<usize>) -> Answer {
    let state = begin()?;
    nodes(found, data, count, state.nodes.get(node)?.after.iter().copied())
}

fn dependents(node: Handle, found: &Out<Handle>, data: &Data, count: &Out<usize>) -> Answer {
    let state = begin()?;
    let edges = edges(&state, state.nodes.get(node)?.graph)?;
    nodes(found, data, count, edges.into_iter().filter(|[from, _]| *from == node).map(|[_, to]| to))
}

/// Adds arrows to a graph, or removes them: all or none.
fn change(of: Handle, from: &In<Handle>, to: &In<Handle>, count: usize, adds: bool) -> Answer {
    let mut state = begin()?;
    state.graphs.get(of)?;
    if !adds {
        state.has_no_memory(of)?;
    }
    let edges: Vec<_> = from.all(count)?.into_iter().zip(to.all(count)?).collect();
    for (from, to) in &edges {
        let belongs = |node: Handle| state.nodes.get(node).is_ok_and(|node| node.graph == of);
        let is_there = state.nodes.get(*to).is_ok_and(|node| node.after.contains(from));
        if !belongs(*from) || !belongs(*to) || from == to || is_there == adds {
            return Err(Code::INVALID_VALUE);
        }
    }
    for (from, to) in edges {
        let after = &mut state.nodes.get_mut(to)?.after;
        if adds { after.push(from) } else { after.retain(|before| *before != from) }
    }
    Ok(())
}

const UPLOAD: u64 = 2;
const DEVICE_LAUNCH: u64 = 4;

fn instantiate(state: &mut State, executable: &Out<Handle>, of: Handle, flags: u64) -> Answer {
    executable.ready()?;
    if flags >= 16 {
        return Err(Code::INVALID_VALUE);
    }
    if flags & DEVICE_LAUNCH != 0 {
        say_once("launching a graph from a kernel");
        return Err(Code::NOT_SUPPORTED);
    }
    if let Ok(context) = current() {
        state.sound(context)?;
    }
    let is_of = |executable: &Executable| executable.graph == of;
    if state.executables.iter().any(|(_, executable)| is_of(executable)) {
        state.has_no_memory(of)?;
    }
    let made = state.executable(of, flags & !UPLOAD)?;
    executable.set(state.executables.insert(made))
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Parameters {
    flags: u64,
    stream: Handle,
    wrong_node: Handle,
    result: u32,
}

/// `CUgraphExecUpdateResult`.
mod update {
    pub(super) const SUCCESS: u32 = 0;
    pub(super) const TOPOLOGY_CHANGED: u32 = 2;
    pub(super) const KIND_CHANGED: u32 = 3;
}

/// `CUgraphExecUpdateResultInfo`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Updated {
    result: u32,
    node: Handle,
    from: Handle,
}

impl Executable {
    /// Takes over what the nodes of a graph do, if they are in the same order and of the same kinds.
    fn update(&mut self, new: Executable) -> Updated {
        let failed = |result, node| Updated { result, node, from: 0 };
        if new.steps.len() != self.steps.len() {
            return failed(update::TOPOLOGY_CHANGED, 0);
        }
        for (old, new) in self.steps.iter().zip(&new.steps) {
            if old.after != new.after {
                return failed(update::TOPOLOGY_CHANGED, new.node);
            }
            if old.task.kind() != new.task.kind() {
                return failed(update::KIND_CHANGED, new.node);
            }
        }
        for (old, new) in self.steps.iter_mut().zip(new.steps) {
            old.task = new.task;
        }
        failed(update::SUCCESS, 0)
    }
}

fn update(executable: Handle, of: Handle) -> Answer<Updated> {
    let mut state = begin()?;
    state.executables.get(executable)?;
    let new = state.executable(of, 0)?;
    Ok(state.executables.get_mut(executable)?.update(new))
}

fn updated(Updated { result, .. }: Updated) -> Answer {
    if result == update::SUCCESS { Ok(()) } else { Err(Code::GRAPH_EXEC_UPDATE_FAILURE) }
}

/// Whether a step of an executable graph is done, by the node that it was made of.
fn is_enabled(state: &mut State, executable: Handle, node: Handle) -> Answer<&mut bool> {
    let executable = state.executables.get_mut(executable)?;
    let step = executable.steps.iter_mut().find(|step| step.node == node).ok_or(Code::INVALID_VALUE)?;
    // Kernels, copies and memsets.
    if step.task.kind() > 2 { Err(Code::INVALID_VALUE) } else { Ok(&mut step.enabled) }
}

calls! {
    10000 fn cuGraphCreate(made: Out<Handle>, flags: u32) {
        let mut state = begin()?;
        made.ready()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        made.set(state.graphs.insert(Graph::default()))
    }

    10000 fn cuGraphDestroy(of: Handle) {
        let mut state = begin()?;
        // Those of nodes go with their nodes.
        if state.graphs.get(of)?.is_child {
            return Err(Code::INVALID_VALUE);
        }
        state.remove_graph(of)
    }

    10000 fn cuGraphClone(clone: Out<Handle>, of: Handle) {
        let mut state = begin()?;
        clone.ready()?;
        state.has_no_memory(of)?;
        clone.set(state.clone_graph(of, false)?)
    }

    10000 fn cuGraphNodeFindInClone(found: Out<Handle>, original: Handle, clone: Handle) {
        let state = begin()?;
        let is_it = |node: &&Handle| state.nodes.get(**node).is_ok_and(|node| node.original == Some(original));
        let node = state.graphs.get(clone)?.nodes.iter().find(is_it).copied();
        found.set(node.ok_or(Code::INVALID_VALUE)?)
    }

    10000 fn cuGraphGetNodes(of: Handle, found: Out<Handle>, count: Out<usize>) {
        let state = begin()?;
        nodes(&found, &Out::null(), &count, state.graphs.get(of)?.nodes.iter().copied())
    }

    10000 fn cuGraphGetRootNodes(of: Handle, found: Out<Handle>, count: Out<usize>) {
        let state = begin()?;
        let is_root = |node: &Handle| state.nodes.get(*node).is_ok_and(|node| node.after.is_empty());
        nodes(&found, &Out::null(), &count, state.graphs.get(of)?.nodes.iter().copied().filter(is_root))
    }

    10000 fn cuGraphGetEdges(of: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
        list(&edges(&*begin()?, of)?, [&from, &to], &Out::null(), &count)
    }

    12030 fn cuGraphGetEdges_v2(
        of: Handle, from: Out<Handle>, to: Out<Handle>, data: Data, count: Out<usize>,
    ) {
        list(&edges(&*begin()?, of)?, [&from, &to], &data, &count)
    }

    10000 fn cuGraphNodeGetDependencies(node: Handle, found: Out<Handle>, count: Out<usize>) {
        after(node, &found, &Out::null(), &count)
    }

    12030 fn cuGraphNodeGetDependencies_v2(
        node: Handle, found: Out<Handle>, data: Data, count: Out<usize>,
    ) {
        after(node, &found, &data, &count)
    }

    10000 fn cuGraphNodeGetDependentNodes(node: Handle, found: Out<Handle>, count: Out<usize>) {
        dependents(node, &found, &Out::null(), &count)
    }

    12030 fn cuGraphNodeGetDependentNodes_v2(
        node: Handle, found: Out<Handle>, data: Data, count: Out<usize>,
    ) {
        dependents(node, &found, &data, &count)
    }

    10000 fn cuGraphAddDependencies(of: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        change(of, &from, &to, count, true)
    }

    12030 fn cuGraphAddDependencies_v2(
        of: Handle, from: In<Handle>, to: In<Handle>, _data: In<[u8; 8]>, count: usize,
    ) {
        change(of, &from, &to, count, true)
    }

    10000 fn cuGraphRemoveDependencies(of: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        change(of, &from, &to, count, false)
    }

    12030 fn cuGraphRemoveDependencies_v2(
        of: Handle, from: In<Handle>, to: In<Handle>, _data: In<[u8; 8]>, count: usize,
    ) {
        change(of, &from, &to, count, false)
    }

    10000 fn cuGraphInstantiate(
        executable: Out<Handle>, of: Handle, _wrong_node: Out<Handle>, log: Out<u8>, room: usize,
    ) {
        instantiate_with_log(&executable, of, log, room)
    }

    11000 fn cuGraphInstantiate_v2(
        executable: Out<Handle>, of: Handle, _wrong_node: Out<Handle>, log: Out<u8>, room: usize,
    ) {
        instantiate_with_log(&executable, of, log, room)
    }

    11040 fn cuGraphInstantiateWithFlags(executable: Out<Handle>, of: Handle, flags: u64) {
        instantiate(&mut *begin()?, &executable, of, flags)
    }

    12000 fn cuGraphInstantiateWithParams(executable: Out<Handle>, of: Handle, parameters: Out<Parameters>) {
        let mut state = begin()?;
        let given = parameters.get()?;
        parameters.ready()?;
        let made = instantiate(&mut state, &executable, of, given.flags);
        // `CUgraphInstantiateResult`: success, or an error that the code tells.
        parameters.set(Parameters { wrong_node: 0, result: made.is_err().into(), ..given })?;
        made
    }

    12000 fn cuGraphExecGetFlags(executable: Handle, flags: Out<u64>) {
        flags.set(begin()?.executables.get(executable)?.flags)
    }

    10020 fn cuGraphExecUpdate(executable: Handle, of: Handle, wrong_node: Out<Handle>, result: Out<u32>) {
        let done = update(executable, of)?;
        wrong_node.set_if_wanted(done.node)?;
        result.set(done.result)?;
        updated(done)
    }

    12000 fn cuGraphExecUpdate_v2(executable: Handle, of: Handle, result: Out<Updated>) {
        let done = update(executable, of)?;
        result.set(done)?;
        updated(done)
    }

    10000 fn cuGraphLaunch(executable: Handle, stream: Handle) {
        let (mut state, stream) = begin_with(stream)?;
        state.executables.get(executable)?;
        state.not_captured(stream)?;
        state.launch_graph(executable, stream)
    }

    11010 fn cuGraphUpload(executable: Handle, stream: Handle) {
        let (mut state, stream) = begin_with(stream)?;
        state.executables.get(executable)?;
        state.not_captured(stream)
    }

    11060 fn cuGraphNodeSetEnabled(executable: Handle, node: Handle, enabled: u32) {
        let mut state = begin()?;
        *is_enabled(&mut state, executable, node)? = enabled != 0;
        Ok(())
    }

    11060 fn cuGraphNodeGetEnabled(executable: Handle, node: Handle, enabled: Out<u32>) {
        let mut state = begin()?;
        enabled.set((*is_enabled(&mut state, executable, node)?).into())
    }

    10000 fn cuGraphExecDestroy(executable: Handle) {
        begin()?.executables.remove(executable).map(drop)
    }
}

fn instantiate_with_log(executable: &Out<Handle>, of: Handle, log: Out<u8>, room: usize) -> Answer {
    let mut state = begin()?;
    let has_log = !log.is_null() && room > 0;
    if has_log && !log.has_room(room) {
        return Err(Code::INVALID_VALUE);
    }
    let made = instantiate(&mut state, executable, of, 0);
    if has_log {
        let words = if made.is_ok() { "" } else { "the graph cannot be instantiated" };
        write_text(log, room, words)?;
    }
    made
}
