//! Functions of graphs: making, instantiating and launching them.

use super::launch::not_packed;
use crate::driver::caller::arguments::{Arguments, In, Out, Packed};
use crate::driver::graph::nodes::Task;
use crate::driver::handles::Handle;
use crate::driver::launch::shape::Shape;
use crate::driver::load::lazy::load;
use crate::driver::process::current::CurrentContext;
use crate::driver::process::simulator::{Locked, begin, begin_with};
use crate::driver::report::failures::not_simulated;
use crate::driver::result::{Answer, Code};
use crate::driver::stream::queue::Work;

/// `CUDA_KERNEL_NODE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Kernel {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    arguments: Arguments,
    packed: Packed,
    /// A library's kernel, in the place of a function.
    kernel: Handle,
    context: Handle,
}

impl Kernel {
    /// The launch, with its kernel loaded, for which this may wait.
    fn task(&self, mut state: Locked, call: &'static str) -> Answer<(Locked, Task)> {
        let Kernel { function, grid, block, shared, arguments, packed, .. } = *self;
        let function = if function == 0 { self.kernel } else { function };
        let context = match state.functions.get(function) {
            Ok(function) => function.context,
            Err(_) if self.context != 0 => self.context,
            Err(_) => CurrentContext::get()?,
        };
        state.sound(context)?;
        not_packed(&packed)?;
        let shape = Shape { grid, block, cluster: None, shared, cooperative: false };
        let (mut state, function) = load(state, function, context, call)?;
        let launch = state.prepare(function, context, shape, |kernel| arguments.get(&kernel.parameters))?;
        Ok((state, Task { work: Work::Launch(Box::new(launch)), context }))
    }
}

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

    10000 fn cuGraphClone(clone: Out<Handle>, graph: Handle) = {
        let mut state = begin()?;
        clone.ready()?;
        clone.set(state.graphs.clone_of(graph)?)
    };

    12000 fn cuGraphAddKernelNode_v2(
        node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<Kernel>,
    ) = {
        let state = begin()?;
        let after = after.all(count)?;
        state.graphs.may_add(graph, &after)?;
        node.ready()?;
        let (mut state, task) = parameters.get()?.task(state, "cuGraphAddKernelNode")?;
        node.set(state.graphs.add(graph, task, after)?)
    };

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

    12000 fn cuGraphKernelNodeSetParams_v2(node: Handle, parameters: In<Kernel>) = {
        let state = begin()?;
        state.graphs.kind(node)?;
        let (mut state, task) = parameters.get()?.task(state, "cuGraphKernelNodeSetParams")?;
        state.graphs.change(node, task)
    };

    12000 fn cuGraphExecKernelNodeSetParams_v2(executable: Handle, node: Handle, parameters: In<Kernel>) = {
        let state = begin()?;
        state.graphs.executables.get(executable)?;
        let (mut state, task) = parameters.get()?.task(state, "cuGraphExecKernelNodeSetParams")?;
        state.graphs.change_executable(executable, node, task)
    };

    10000 fn cuGraphExecDestroy(executable: Handle) = begin()?.graphs.executables.remove(executable).map(drop);
}
