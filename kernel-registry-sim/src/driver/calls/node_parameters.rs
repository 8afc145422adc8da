//! What nodes do, as callers write it: reading that, and changing it.

use super::context::current;
use super::copy::Copy3;
use super::fill::Fill;
use super::lacking::say_once;
use crate::driver::abi::{Arguments, HostFunction, In, Out, Packed};
use crate::driver::graph::Task;
use crate::driver::handles::Handle;
use crate::driver::launch::Shape;
use crate::driver::result::{Answer, Code};
use crate::driver::state::{State, begin};
use crate::driver::stream::{Function, Work};

/// `CUDA_KERNEL_NODE_PARAMS` before CUDA 12.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct OldKernel {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    arguments: Arguments,
    packed: Packed,
}

/// `CUDA_KERNEL_NODE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Kernel {
    old: OldKernel,
    /// A library's kernel, in the place of a function.
    kernel: Handle,
    context: Handle,
}

impl From<OldKernel> for Kernel {
    fn from(old: OldKernel) -> Self {
        Kernel { old, kernel: 0, context: 0 }
    }
}

/// A context, or the current one.
fn meant(state: &mut State, context: Handle) -> Answer<Handle> {
    let context = if context == 0 { current()? } else { context };
    state.context(context).map(|_| context)
}

impl Kernel {
    pub(super) fn task(&self, state: &mut State) -> Answer<Task> {
        let OldKernel { function, grid, block, shared, arguments, packed } = self.old;
        let function = if function == 0 { self.kernel } else { function };
        let context = match state.functions.get(function) {
            Ok(function) => function.context,
            Err(_) => meant(state, self.context)?,
        };
        let shape = Shape { grid, block, cluster: None, shared, cooperative: false };
        let launch =
            state.prepare(function, context, shape, |kernel| arguments.get(&kernel.parameters, &packed))?;
        // It is loaded with the graph.
        state.load_behind(launch.function)?;
        Ok(Task::Work(Work::Launch(Box::new(launch)), context))
    }

    /// What a node launches. Its arguments are where they were copied to, until the node is changed or gone.
    fn of(state: &mut State, node: Handle) -> Answer<Self> {
        let found = state.nodes.get_mut(node)?;
        let Task::Work(Work::Launch(launch), context) = &found.task else { return Err(Code::INVALID_VALUE) };
        let start = launch.arguments.as_ptr().expose_provenance();
        let parameters = launch.kernel().parameters.iter();
        found.arguments = parameters.map(|(offset, _)| start + offset).collect();
        let Shape { grid, block, shared, .. } = launch.shape;
        let arguments = Arguments::from(&*found.arguments);
        let old =
            OldKernel { function: launch.function, grid, block, shared, arguments, packed: Packed::null() };
        Ok(Kernel { old, kernel: 0, context: *context })
    }
}

/// `CUDA_HOST_NODE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Host {
    function: HostFunction,
    data: usize,
}

impl Host {
    pub(super) fn task(self) -> Answer<Task> {
        if !self.function.is_there() {
            return Err(Code::INVALID_VALUE);
        }
        let work = Work::Call { function: Function::Plain(self.function), data: self.data };
        Ok(Task::Work(work, current()?))
    }

    fn of(work: &Work) -> Answer<Self> {
        match work {
            Work::Call { function: Function::Plain(function), data } => {
                Ok(Host { function: *function, data: *data })
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

impl Copy3 {
    pub(super) fn task(&self, state: &mut State, context: Handle) -> Answer<Task> {
        Ok(Task::Work(self.node(state)?, meant(state, context)?))
    }
}

impl Fill {
    pub(super) fn task(&self, state: &mut State, context: Handle) -> Answer<Task> {
        Ok(Task::Work(self.work(state)?, meant(state, context)?))
    }
}

/// `CUDA_MEMCPY_NODE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
struct CopyIn {
    flags: [i32; 2],
    context: Handle,
    copy: Copy3,
}

/// `CUDA_MEMSET_NODE_PARAMS_v2`.
#[derive(Clone, Copy)]
#[repr(C)]
struct FillIn {
    fill: Fill,
    context: Handle,
}

/// `CUgraphNodeParams`: what kind of node, and what that has.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Parameters {
    kind: u32,
    reserved: [u32; 3],
    body: [u64; 29],
    behind: u64,
}

impl Parameters {
    fn get<T: Copy>(&self) -> Answer<T> {
        const { assert!(size_of::<T>() <= size_of::<[u64; 29]>()) };
        In::from(self.body.as_ptr().cast()).get()
    }

    /// The graph of which a node is to have a clone.
    pub(super) fn child(&self) -> Option<Handle> {
        const CHILD: u32 = 4;
        (self.kind == CHILD).then_some(self.body[0] as usize)
    }

    pub(super) fn task(&self, state: &mut State) -> Answer<Task> {
        match self.kind {
            0 => self.get::<Kernel>()?.task(state),
            1 => {
                let CopyIn { copy, context, .. } = self.get()?;
                copy.task(state, context)
            }
            2 => {
                let FillIn { fill, context } = self.get()?;
                fill.task(state, context)
            }
            3 => self.get::<Host>()?.task(),
            5 => Ok(Task::Nothing),
            6 => event(state, self.get()?).map(Task::Wait),
            7 => event(state, self.get()?).map(Task::Record),
            _ => {
                say_once("a node of a graph that is none of kernel, copy, memset, function, graph or event");
                Err(Code::NOT_SUPPORTED)
            }
        }
    }
}

/// An event that there is.
fn event(state: &State, event: Handle) -> Answer<Handle> {
    state.events.get(event).map(|_| event)
}

/// Changes what a node does, which remains of its kind. Graphs that were instantiated before are not changed by it.
fn set(node: Handle, task: impl FnOnce(&mut State) -> Answer<Task>) -> Answer {
    let mut state = begin()?;
    let kind = state.nodes.get(node)?.task.kind();
    let task = task(&mut state)?;
    if task.kind() != kind {
        return Err(Code::INVALID_VALUE);
    }
    state.nodes.get_mut(node)?.task = task;
    Ok(())
}

/// The same for a graph that was instantiated, where a node has left its step.
fn set_step(executable: Handle, node: Handle, task: impl FnOnce(&mut State) -> Answer<Task>) -> Answer {
    let mut state = begin()?;
    state.executables.get(executable)?;
    let task = task(&mut state)?;
    let steps = &mut state.executables.get_mut(executable)?.steps;
    let step = steps.iter_mut().find(|step| step.node == node).ok_or(Code::INVALID_VALUE)?;
    if step.task.kind() != task.kind() {
        return Err(Code::INVALID_VALUE);
    }
    step.task = task;
    Ok(())
}

/// What a node does to memory, or which function it calls.
fn work(state: &State, node: Handle) -> Answer<&Work> {
    match &state.nodes.get(node)?.task {
        Task::Work(work, _) => Ok(work),
        _ => Err(Code::INVALID_VALUE),
    }
}

calls! {
    10000 fn cuGraphKernelNodeGetParams(node: Handle, parameters: Out<OldKernel>) {
        parameters.set(Kernel::of(&mut *begin()?, node)?.old)
    }

    12000 fn cuGraphKernelNodeGetParams_v2(node: Handle, parameters: Out<Kernel>) {
        parameters.set(Kernel::of(&mut *begin()?, node)?)
    }

    10000 fn cuGraphKernelNodeSetParams(node: Handle, parameters: In<OldKernel>) {
        set(node, |state| Kernel::from(parameters.get()?).task(state))
    }

    12000 fn cuGraphKernelNodeSetParams_v2(node: Handle, parameters: In<Kernel>) {
        set(node, |state| parameters.get()?.task(state))
    }

    10010 fn cuGraphExecKernelNodeSetParams(executable: Handle, node: Handle, parameters: In<OldKernel>) {
        set_step(executable, node, |state| Kernel::from(parameters.get()?).task(state))
    }

    12000 fn cuGraphExecKernelNodeSetParams_v2(executable: Handle, node: Handle, parameters: In<Kernel>) {
        set_step(executable, node, |state| parameters.get()?.task(state))
    }

    10000 fn cuGraphMemcpyNodeGetParams(node: Handle, copy: Out<Copy3>) {
        let state = begin()?;
        copy.set(Copy3::of(work(&state, node)?, &state)?)
    }

    10000 fn cuGraphMemcpyNodeSetParams(node: Handle, copy: In<Copy3>) {
        set(node, |state| copy.get()?.task(state, 0))
    }

    10020 fn cuGraphExecMemcpyNodeSetParams(executable: Handle, node: Handle, copy: In<Copy3>, context: Handle) {
        set_step(executable, node, |state| copy.get()?.task(state, context))
    }

    10000 fn cuGraphMemsetNodeGetParams(node: Handle, fill: Out<Fill>) {
        fill.set(Fill::of(work(&*begin()?, node)?)?)
    }

    10000 fn cuGraphMemsetNodeSetParams(node: Handle, fill: In<Fill>) {
        set(node, |state| fill.get()?.task(state, 0))
    }

    10020 fn cuGraphExecMemsetNodeSetParams(executable: Handle, node: Handle, fill: In<Fill>, context: Handle) {
        set_step(executable, node, |state| fill.get()?.task(state, context))
    }

    10000 fn cuGraphHostNodeGetParams(node: Handle, host: Out<Host>) {
        host.set(Host::of(work(&*begin()?, node)?)?)
    }

    10000 fn cuGraphHostNodeSetParams(node: Handle, host: In<Host>) {
        set(node, |_| host.get()?.task())
    }

    10020 fn cuGraphExecHostNodeSetParams(executable: Handle, node: Handle, host: In<Host>) {
        set_step(executable, node, |_| host.get()?.task())
    }

    11010 fn cuGraphEventRecordNodeGetEvent(node: Handle, recorded: Out<Handle>) {
        match begin()?.nodes.get(node)?.task {
            Task::Record(event) => recorded.set(event),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    11010 fn cuGraphEventRecordNodeSetEvent(node: Handle, recorded: Handle) {
        set(node, |state| event(state, recorded).map(Task::Record))
    }

    11010 fn cuGraphExecEventRecordNodeSetEvent(executable: Handle, node: Handle, recorded: Handle) {
        set_step(executable, node, |state| event(state, recorded).map(Task::Record))
    }

    11010 fn cuGraphEventWaitNodeGetEvent(node: Handle, awaited: Out<Handle>) {
        match begin()?.nodes.get(node)?.task {
            Task::Wait(event) => awaited.set(event),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    11010 fn cuGraphEventWaitNodeSetEvent(node: Handle, awaited: Handle) {
        set(node, |state| event(state, awaited).map(Task::Wait))
    }

    11010 fn cuGraphExecEventWaitNodeSetEvent(executable: Handle, node: Handle, awaited: Handle) {
        set_step(executable, node, |state| event(state, awaited).map(Task::Wait))
    }

    12020 fn cuGraphNodeSetParams(node: Handle, parameters: In<Parameters>) {
        set(node, |state| parameters.get()?.task(state))
    }

    13040 fn cuGraphNodeSetParams_v2(node: Handle, parameters: In<Parameters>) {
        set(node, |state| parameters.get()?.task(state))
    }

    12020 fn cuGraphExecNodeSetParams(executable: Handle, node: Handle, parameters: In<Parameters>) {
        set_step(executable, node, |state| parameters.get()?.task(state))
    }
}
