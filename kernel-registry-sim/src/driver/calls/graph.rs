//! Functions of graphs: asking about them, instantiating and launching them.

use crate::driver::caller::arguments::Out;
use crate::driver::handles::Handle;
use crate::driver::process::current::CurrentContext;
use crate::driver::process::simulator::{begin, begin_with};
use crate::driver::report::failures::not_simulated;
use crate::driver::result::Code;

/// `CUgraphInstantiate_flags`.
const AUTO_FREE: u64 = 1;
const DEVICE_LAUNCH: u64 = 4;

calls! {
    10000 fn cuGraphCreate(made: Out<Handle>, flags: u32) = {
        let mut state = begin()?;
        made.ready()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        made.set(state.graphs.create())
    };

    10000 fn cuGraphDestroy(graph: Handle) = begin()?.graphs.remove(graph);

    10000 fn cuGraphGetNodes(graph: Handle, found: Out<Handle>, count: Out<usize>) = {
        let state = begin()?;
        let nodes = state.graphs.nodes(graph)?;
        if found.is_null() {
            return count.set(nodes.len());
        }
        // As many as there is room for, and zeros behind them.
        let room = count.get()?;
        if room > nodes.len() && !found.has_room(room) {
            return Err(Code::INVALID_VALUE);
        }
        found.set_all(nodes.iter().copied().chain(std::iter::repeat(0)), room)?;
        count.set(nodes.len().min(room))
    };

    10000 fn cuGraphNodeGetType(node: Handle, kind: Out<u32>) = kind.set(begin()?.graphs.kind(node)?);

    11040 fn cuGraphInstantiateWithFlags(executable: Out<Handle>, graph: Handle, flags: u64) = {
        let mut state = begin()?;
        executable.ready()?;
        if flags >= 16 {
            return Err(Code::INVALID_VALUE);
        }
        if flags & DEVICE_LAUNCH != 0 {
            return not_simulated("launching a graph from a kernel");
        }
        if let Some(current) = CurrentContext::peek() {
            state.sound(current.context)?;
        }
        executable.set(state.graphs.instantiate(graph, flags & AUTO_FREE != 0)?)
    };

    10000 fn cuGraphLaunch(executable: Handle, stream: Handle) = {
        let (mut state, stream) = begin_with(stream)?;
        state.graphs.executables.get(executable)?;
        state.not_captured(stream)?;
        state.launch_graph(executable, stream)
    };

    11010 fn cuGraphUpload(executable: Handle, stream: Handle) = {
        let (mut state, stream) = begin_with(stream)?;
        state.graphs.executables.get(executable)?;
        state.not_captured(stream)
    };

    10000 fn cuGraphExecDestroy(executable: Handle) = begin()?.graphs.executables.remove(executable).map(drop);
}
