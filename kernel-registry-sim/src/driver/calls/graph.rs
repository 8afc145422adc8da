//! Defines the functions that instantiate and launch captured graphs.

use crate::driver::caller::arguments::Out;
use crate::driver::handles::Handle;
use crate::driver::report::failures::not_simulated;
use crate::driver::result::Code;
use crate::driver::state::current::CurrentContext;
use crate::driver::state::simulator::{begin, begin_with};

/// Values of `CUgraphInstantiate_flags`.
const AUTO_FREE: u64 = 1;
const DEVICE_LAUNCH: u64 = 4;

calls! {
    10000 fn cuGraphDestroy(graph: Handle) = begin()?.graphs.remove(graph);

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
