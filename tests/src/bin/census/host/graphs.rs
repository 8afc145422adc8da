//! Rows for whole graphs, and for nodes that don't launch kernels.

use std::ffi::c_void;

use census_kernels::plain::small;
use kernel_registry::cudarc::driver::sys;

use crate::bench::{Bench, Word};
use crate::cuda::{self, Done, EventFlags, Handle, MIB, NULL, create, device_copy, driver, join_errors};
use crate::host::{call, with};
use crate::row::Row;

pub(crate) fn rows() -> Vec<Row> {
    [nodes(), instances(), memory(), objects()].into_iter().flatten().collect()
}

fn captured(bench: &Bench) -> Done<sys::CUgraph> {
    let function = bench.loaded(small::INFO)?;
    cuda::capture(bench.tried_stream, || bench.launch(function))
}

fn launched(bench: &Bench, instance: sys::CUgraphExec) -> Done {
    cuda::launch_graph(instance, bench.tried_stream)?;
    cuda::synchronize_stream(bench.tried_stream)
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

/// The parameters of a graph node that calls a host function: the function and its argument.
#[repr(C)]
#[derive(Clone, Copy)]
struct HostFunction(unsafe extern "C" fn(*mut c_void), *mut c_void);

const NOTHING: HostFunction = HostFunction(nothing, NULL);

/// Describes a copy between two device buffers.
fn copy(to: sys::CUdeviceptr, from: sys::CUdeviceptr) -> sys::CUDA_MEMCPY3D {
    let mut copy = device_copy!(CUDA_MEMCPY3D);
    (copy.srcDevice, copy.dstDevice) = (from, to);
    (copy.WidthInBytes, copy.Height, copy.Depth) = (MIB, 1, 1);
    copy
}

/// Describes a fill of memory with zero.
fn set(memory: sys::CUdeviceptr) -> sys::CUDA_MEMSET_NODE_PARAMS {
    let mut set: sys::CUDA_MEMSET_NODE_PARAMS = cuda::zero();
    (set.dst, set.elementSize, set.width, set.height) = (memory, 4, MIB / 4, 1);
    set
}

fn nodes() -> Vec<Row> {
    vec![
        call("graph_structure", |_| {
            let (graph, child) = (cuda::new_graph()?, cuda::new_graph()?);
            let mut first: Handle = create!(cuGraphAddEmptyNode(graph, NULL, 0_usize))?;
            let mut second: Handle = create!(cuGraphAddEmptyNode(graph, NULL, 0_usize))?;
            let nested: Handle = create!(cuGraphAddChildGraphNode(graph, NULL, 0_usize, child))?;
            let clone = create!(cuGraphClone(graph))?;
            let (mut found, mut count, mut inner) = (NULL, 0_usize, NULL);
            let (from, to) = (&raw mut first, &raw mut second);
            join_errors([
                driver!(cuGraphAddDependencies_v2(graph, from, to, NULL, 1_usize)),
                driver!(cuGraphNodeFindInClone(&raw mut found, first, clone)),
                driver!(cuGraphChildGraphNodeGetGraph(nested, &raw mut inner)),
                driver!(cuGraphGetNodes(graph, NULL, &raw mut count)),
                driver!(cuGraphGetRootNodes(graph, NULL, &raw mut count)),
                driver!(cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &raw mut count)),
                driver!(cuGraphNodeGetDependencies_v2(second, NULL, NULL, &raw mut count)),
                driver!(cuGraphNodeGetDependentNodes_v2(first, NULL, NULL, &raw mut count)),
                driver!(cuGraphRemoveDependencies_v2(graph, from, to, NULL, 1_usize)),
                driver!(cuGraphDestroyNode(nested)),
                driver!(cuGraphDebugDotPrint(graph, c"/dev/null".as_ptr(), 0_u32)),
                driver!(cuGraphDestroy(clone)),
                driver!(cuGraphDestroy(graph)),
            ])
        }),
        with(
            "graph_copy_nodes",
            |_| Ok((cuda::alloc(MIB)?, cuda::alloc(MIB)?)),
            |_, (to, from)| {
                let (graph, context) = (cuda::new_graph()?, cuda::current_context()?);
                let (mut copy, mut set) = (copy(to, from), set(to));
                let copies = create!(cuGraphAddMemcpyNode(graph, NULL, 0_usize, &raw mut copy, context))?;
                let sets = create!(cuGraphAddMemsetNode(graph, NULL, 0_usize, &raw mut set, context))?;
                let instance = cuda::instantiate(graph)?;
                join_errors([
                    driver!(cuGraphMemcpyNodeGetParams(copies, &raw mut copy)),
                    driver!(cuGraphMemcpyNodeSetParams(copies, &raw mut copy)),
                    driver!(cuGraphMemsetNodeGetParams(sets, &raw mut set)),
                    driver!(cuGraphMemsetNodeSetParams(sets, &raw mut set)),
                    driver!(cuGraphExecMemcpyNodeSetParams(instance, copies, &raw mut copy, context)),
                    driver!(cuGraphExecMemsetNodeSetParams(instance, sets, &raw mut set, context)),
                ])
            },
        ),
        with(
            "cuGraphLaunch_of_copy_nodes",
            |_| {
                let (to, from, graph) = (cuda::alloc(MIB)?, cuda::alloc(MIB)?, cuda::new_graph()?);
                let (context, mut copy, mut set) = (cuda::current_context()?, copy(to, from), set(to));
                create!(cuGraphAddMemcpyNode(graph, NULL, 0_usize, &raw mut copy, context))?;
                create!(cuGraphAddMemsetNode(graph, NULL, 0_usize, &raw mut set, context))?;
                cuda::instantiate(graph)
            },
            launched,
        ),
        with(
            "graph_host_and_event_nodes",
            |_| cuda::event(EventFlags::CU_EVENT_DEFAULT),
            |bench, event| {
                let graph = cuda::new_graph()?;
                let (mut host, mut found) = (NOTHING, NULL);
                let calls = create!(cuGraphAddHostNode(graph, NULL, 0_usize, &raw mut host))?;
                let records = create!(cuGraphAddEventRecordNode(graph, NULL, 0_usize, event))?;
                let waits = create!(cuGraphAddEventWaitNode(graph, NULL, 0_usize, event))?;
                let instance = cuda::instantiate(graph)?;
                join_errors([
                    driver!(cuGraphHostNodeGetParams(calls, &raw mut host)),
                    driver!(cuGraphHostNodeSetParams(calls, &raw mut host)),
                    driver!(cuGraphEventRecordNodeGetEvent(records, &raw mut found)),
                    driver!(cuGraphEventRecordNodeSetEvent(records, event)),
                    driver!(cuGraphEventWaitNodeGetEvent(waits, &raw mut found)),
                    driver!(cuGraphEventWaitNodeSetEvent(waits, event)),
                    driver!(cuGraphExecHostNodeSetParams(instance, calls, &raw mut host)),
                    driver!(cuGraphExecEventRecordNodeSetEvent(instance, records, event)),
                    driver!(cuGraphExecEventWaitNodeSetEvent(instance, waits, event)),
                    launched(bench, instance),
                ])
            },
        ),
        with("graph_child_nodes", captured, |bench, child| {
            let graph = cuda::new_graph()?;
            let node: Handle = create!(cuGraphAddChildGraphNode(graph, NULL, 0_usize, child))?;
            let instance = cuda::instantiate(graph)?;
            join_errors([
                driver!(cuGraphExecChildGraphNodeSetParams(instance, node, child)),
                launched(bench, instance),
            ])
        }),
        call("graph_batch_nodes", |bench| {
            let graph = cuda::new_graph()?;
            let mut writes = cuda::batch(bench.address_of(Word::Spare));
            let (context, operations) = (cuda::current_context()?, writes.as_mut_ptr());
            let mut params = BatchNode { context, count: 1, operations, flags: 0 };
            let mut found = BatchNode { context, count: 0, operations, flags: 0 };
            let node = create!(cuGraphAddBatchMemOpNode(graph, NULL, 0_usize, &raw mut params))?;
            let instance = cuda::instantiate(graph)?;
            join_errors([
                driver!(cuGraphBatchMemOpNodeGetParams(node, &raw mut found)),
                driver!(cuGraphBatchMemOpNodeSetParams(node, &raw mut params)),
                driver!(cuGraphExecBatchMemOpNodeSetParams(instance, node, &raw mut params)),
                launched(bench, instance),
            ])
        }),
        call("cuGraphConditionalHandleCreate", |_| {
            let (graph, context, mut handle) = (cuda::new_graph()?, cuda::current_context()?, 0_u64);
            driver!(cuGraphConditionalHandleCreate(&raw mut handle, graph, context, 1_u32, 1_u32))
        }),
    ]
}

/// The parameters of a node that writes words or waits for words.
#[repr(C)]
struct BatchNode {
    context: sys::CUcontext,
    count: u32,
    operations: *mut u64,
    flags: u32,
}

/// Returns rows for the functions that instantiate a graph.
fn instances() -> Vec<Row> {
    // Flags of `cuGraphInstantiate`.
    const FREES: u64 = 1;
    const UPLOADS: u64 = 2;
    const LAUNCHED_BY_DEVICE: u64 = 4;
    vec![
        with("cuGraphInstantiate_freeing", captured, |_, graph| {
            create!(cuGraphInstantiateWithFlags(graph, FREES)).map(drop)
        }),
        with("cuGraphInstantiate_for_device", captured, |_, graph| {
            create!(cuGraphInstantiateWithFlags(graph, LAUNCHED_BY_DEVICE)).map(drop)
        }),
        with("cuGraphInstantiateWithParams_uploading", captured, |bench, graph| {
            // The structure has the flags, the stream for the upload, and two words for the driver to set.
            let mut params = [UPLOADS, bench.tried_stream.addr() as u64, 0, 0];
            create!(cuGraphInstantiateWithParams(graph, params.as_mut_ptr())).map(drop)?;
            cuda::synchronize_stream(bench.tried_stream)
        }),
        with(
            "cuGraphExecGetFlags",
            |bench| cuda::instantiate(captured(bench)?),
            |_, instance| {
                let mut flags = 0_u64;
                driver!(cuGraphExecGetFlags(instance, &raw mut flags))
            },
        ),
        with("cuGraphDestroy", captured, |_, graph| driver!(cuGraphDestroy(graph))),
    ]
}

/// Creates and instantiates a graph that allocates memory and frees it.
fn allocating() -> Done<(sys::CUgraph, sys::CUgraphExec)> {
    let graph = cuda::new_graph()?;
    let (mut params, mut asked) = (cuda::allocation_node(MIB), cuda::allocation_node(MIB));
    let mut allocates: Handle = create!(cuGraphAddMemAllocNode(graph, NULL, 0_usize, &raw mut params))?;
    let memory = params.dptr;
    let frees = create!(cuGraphAddMemFreeNode(graph, &raw mut allocates, 1_usize, memory))?;
    let mut freed = 0_u64;
    driver!(cuGraphMemAllocNodeGetParams(allocates, &raw mut asked))?;
    driver!(cuGraphMemFreeNodeGetParams(frees, &raw mut freed))?;
    Ok((graph, cuda::instantiate(graph)?))
}

fn memory() -> Vec<Row> {
    vec![
        call("cuGraphAddMemAllocNode", |_| allocating().map(drop)),
        with("cuGraphLaunch_allocating", |_| allocating(), |bench, (_, instance)| launched(bench, instance)),
        with(
            "cuGraphLaunch_allocating_again",
            |bench| {
                let (graph, instance) = allocating()?;
                launched(bench, instance)?;
                Ok((graph, instance))
            },
            |bench, (_, instance)| launched(bench, instance),
        ),
        with(
            "cuGraphExecDestroy_allocating",
            |bench| {
                let (graph, instance) = allocating()?;
                launched(bench, instance)?;
                Ok((graph, instance))
            },
            |bench, (graph, instance)| {
                join_errors([
                    cuda::destroy_graph(instance),
                    driver!(cuGraphDestroy(graph)),
                    cuda::trim_graphs(bench.device()),
                ])
            },
        ),
        call("cuDeviceGetGraphMemAttribute", |bench| {
            const USED_HIGH: u32 = 1;
            let mut bytes = 0_u64;
            join_errors([
                driver!(cuDeviceGetGraphMemAttribute(bench.device(), USED_HIGH, &raw mut bytes)),
                driver!(cuDeviceSetGraphMemAttribute(bench.device(), USED_HIGH, &raw mut bytes)),
            ])
        }),
    ]
}

/// Returns rows for user objects, which live as long as the graphs that own them.
fn objects() -> Vec<Row> {
    vec![call("user_objects", |_| {
        const MOVES: u32 = 1;
        const WITHOUT_SYNCHRONIZING: u32 = 1;
        let graph = cuda::new_graph()?;
        let function: unsafe extern "C" fn(*mut c_void) = nothing;
        let object: Handle = create!(cuUserObjectCreate(NULL, function, 2_u32, WITHOUT_SYNCHRONIZING))?;
        join_errors([
            driver!(cuUserObjectRetain(object, 1_u32)),
            driver!(cuGraphRetainUserObject(graph, object, 1_u32, MOVES)),
            driver!(cuGraphReleaseUserObject(graph, object, 1_u32)),
            driver!(cuUserObjectRelease(object, 2_u32)),
            driver!(cuGraphDestroy(graph)),
        ])
    })]
}
