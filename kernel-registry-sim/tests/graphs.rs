//! Graphs that are made node by node, and what becomes of them when they are launched.

mod device;

use std::sync::atomic::{AtomicU32, Ordering};

use device::*;

/// `CUDA_KERNEL_NODE_PARAMS` of one thread.
fn one_thread(function: usize, kernel: usize, arguments: &mut [usize]) -> [usize; 9] {
    const ONE: usize = 1 << 32 | 1;
    [function, ONE, ONE, ONE, 0, place(arguments), 0, kernel, 0]
}

/// Adds a node that launches one thread with these arguments.
fn add_kernel(graph: usize, after: &[usize], function: usize, arguments: &[u64]) -> usize {
    let mut arguments = arguments.to_vec();
    let mut places: Vec<usize> = arguments.iter_mut().map(place).collect();
    add(graph, "cuGraphAddKernelNode_v2", after, &[place(&mut one_thread(function, 0, &mut places))])
}

/// Adds a node after others.
fn add(graph: usize, name: &str, after: &[usize], others: &[usize]) -> usize {
    let mut after = after.to_vec();
    get(name, &[&[graph, place(&mut *after), after.len()], others].concat())
}

fn graph() -> usize {
    get("cuGraphCreate", &[0])
}

#[test]
fn nodes_wait_for_what_comes_before_them_and_for_nothing_else() {
    context(0);
    let (log, flag) = (memory(64), memory(4));
    let graph = graph();
    let (push, wait, store) = (kernel("push"), kernel("await"), kernel("store"));
    let first = add_kernel(graph, &[], push, &[log as u64, 1]);
    // This branch goes on only when the other one has come to its end.
    let waits = add_kernel(graph, &[first], wait, &[flag as u64]);
    let after = add_kernel(graph, &[waits], push, &[log as u64, 3]);
    let other = add_kernel(graph, &[first], push, &[log as u64, 2]);
    let sets = add_kernel(graph, &[other], store, &[flag as u64, 1]);
    add_kernel(graph, &[after, sets], push, &[log as u64, 4]);
    run(graph);
    expect_eq!(noted(log), [1, 2, 3, 4]);
    expect_eq!(list("cuGraphGetRootNodes", graph), [first]);
    expect_eq!(list("cuGraphGetNodes", graph).len(), 6);
    expect_eq!(list("cuGraphNodeGetDependencies", after), [waits]);
    expect_eq!(list("cuGraphNodeGetDependentNodes", first), [waits, other]);
}

#[test]
fn a_launch_has_its_place_in_its_stream() {
    context(0);
    let (log, stream, push) = (memory(64), stream(), kernel("push"));
    let graph = graph();
    for number in [1, 2, 3] {
        add_kernel(graph, &[], push, &[log as u64, number]);
    }
    let executable = instantiate(graph);
    // A graph that is destroyed leaves what was made of it.
    ok("cuGraphDestroy", &[graph]);
    launch(push, stream, &[log as u64, 10]);
    ok("cuGraphUpload", &[executable, stream]);
    ok("cuGraphLaunch", &[executable, stream]);
    launch(push, stream, &[log as u64, 20]);
    // On another stream it waits for itself.
    ok("cuGraphLaunch", &[executable, self::stream()]);
    ok("cuCtxSynchronize", &[]);
    let noted = noted(log);
    let mut first: Vec<u32> = noted[1..4].to_vec();
    first.sort_unstable();
    expect_eq!((noted[0], first, noted.len()), (10, vec![1, 2, 3], 8), "{noted:?}");
}

static CALLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn note(data: usize) {
    CALLED.fetch_add(data as u32, Ordering::SeqCst);
}

#[test]
fn nodes_of_every_kind() {
    context(0);
    let (from, to) = (memory(64), memory(64));
    let graph = graph();
    // Two rows of two words, 16 bytes apart.
    let mut fill = [from, 16, 4 << 32 | 7, 2, 2];
    let fill = add(graph, "cuGraphAddMemsetNode", &[], &[place(&mut fill), 0]);
    const DEVICE: usize = 2;
    let mut copy = [0_usize; 25];
    (copy[4], copy[6], copy[9], copy[10]) = (DEVICE, from, 16, 2);
    (copy[11], copy[15], copy[17], copy[20], copy[21]) = (4, DEVICE, to, 16, 2);
    (copy[22], copy[23], copy[24]) = (8, 2, 1);
    let copy = add(graph, "cuGraphAddMemcpyNode", &[fill], &[place(&mut copy), 0]);
    let host = add(graph, "cuGraphAddHostNode", &[copy], &[place(&mut [note as *const () as usize, 5])]);
    let (recorded, awaited) = (event(), event());
    let record = add(graph, "cuGraphAddEventRecordNode", &[host], &[recorded]);
    let wait = add(graph, "cuGraphAddEventWaitNode", &[record], &[awaited]);
    let empty = add(graph, "cuGraphAddEmptyNode", &[wait], &[]);
    let inner = self::graph();
    let store = add_kernel(inner, &[], kernel("store"), &[to as u64, 9]);
    let child = add(graph, "cuGraphAddChildGraphNode", &[empty], &[inner]);
    // The node has a clone of the graph as it was.
    ok("cuGraphDestroyNode", &[store]);
    expect_eq!(kinds(graph), [2, 1, 3, 7, 6, 5, 4]);
    run(graph);
    ok("cuEventSynchronize", &[recorded]);
    expect_eq!(CALLED.load(Ordering::SeqCst), 5);
    expect_eq!(words(from, 7), [7, 7, 0, 0, 7, 7, 0]);
    expect_eq!(words(to, 7), [9, 7, 7, 0, 0, 7, 7]);
    let inside = last("cuGraphChildGraphNodeGetGraph", &[child]);
    expect_eq!(list("cuGraphGetNodes", inside).len(), 1);
    expect_eq!(call("cuGraphDestroy", &[inside]), INVALID_VALUE, "it is the node's");
}

#[test]
fn a_clone_has_nodes_of_its_own() {
    context(0);
    let (log, push) = (memory(64), kernel("push"));
    let graph = graph();
    let late = add_kernel(graph, &[], push, &[log as u64, 2]);
    let early = add_kernel(graph, &[], push, &[log as u64, 1]);
    let edge = |name, from: usize, to: usize| call(name, &[graph, place(&mut [from]), place(&mut [to]), 1]);
    expect_eq!(edge("cuGraphAddDependencies", early, late), 0);
    expect_eq!(edge("cuGraphAddDependencies", early, late), INVALID_VALUE, "it is there already");
    expect_eq!(edge("cuGraphAddDependencies", late, late), INVALID_VALUE, "after itself");
    let clone = get("cuGraphClone", &[graph]);
    let twin = get("cuGraphNodeFindInClone", &[early, clone]);
    assert!(twin != early && list("cuGraphGetRootNodes", clone) == [twin]);
    let (mut from, mut to, mut count) = ([0; 2], [0; 2], 2_usize);
    ok("cuGraphGetEdges", &[graph, place(&mut from), place(&mut to), place(&mut count)]);
    expect_eq!((from, to, count), ([early, 0], [late, 0], 1));

    expect_eq!(edge("cuGraphAddDependencies", late, early), 0);
    let mut executable = 0_usize;
    let instantiated = call("cuGraphInstantiateWithFlags", &[place(&mut executable), graph, 0]);
    expect_eq!(instantiated, INVALID_VALUE, "each waits for the other");
    ok("cuGraphDestroyNode", &[late]);
    run(graph);
    run(clone);
    expect_eq!(noted(log), [1, 1, 2]);
    if !on_a_gpu() {
        // NVIDIA's driver follows what was destroyed.
        expect_eq!(call("cuGraphNodeGetType", &[late, place(&mut count)]), INVALID_VALUE);
    }
    expect_eq!(
        call("cuGraphAddEmptyNode", &[place(&mut count), graph, place(&mut [twin]), 1]),
        INVALID_VALUE
    );
}

#[test]
fn a_graph_is_changed_before_and_after_it_was_instantiated() {
    context(0);
    let (log, push) = (memory(64), kernel("push"));
    let graph = graph();
    let node = add_kernel(graph, &[], push, &[log as u64, 1]);
    let mut found = [0_usize; 9];
    ok("cuGraphKernelNodeGetParams_v2", &[node, place(&mut found)]);
    expect_eq!((found[0], found[1] as u32), (push, 1));
    let executable = instantiate(graph);
    let set = |name, first: &[usize], function, number: u64| {
        let mut arguments = [log as u64, number];
        let mut places: Vec<usize> = arguments.iter_mut().map(place).collect();
        call(name, &[first, &[node, place(&mut one_thread(function, 0, &mut places))]].concat())
    };
    expect_eq!(set("cuGraphKernelNodeSetParams_v2", &[], push, 2), 0);
    expect_eq!(set("cuGraphExecKernelNodeSetParams_v2", &[executable], push, 3), 0);
    if !on_a_gpu() {
        // NVIDIA's driver follows what is no function.
        expect_eq!(set("cuGraphExecKernelNodeSetParams_v2", &[executable], 12345, 3), INVALID_HANDLE);
    }
    let stream = stream();
    ok("cuGraphLaunch", &[executable, stream]);
    run(graph);
    ok("cuStreamSynchronize", &[stream]);
    let mut noted = noted(log);
    noted.sort_unstable();
    expect_eq!(noted, [2, 3]);
    // What was asked for is set again.
    ok("cuGraphKernelNodeGetParams_v2", &[node, place(&mut found)]);
    ok("cuGraphExecKernelNodeSetParams_v2", &[executable, node, place(&mut found)]);
    ok("cuGraphNodeSetEnabled", &[executable, node, 0]);
    ok("cuGraphLaunch", &[executable, stream]);
    ok("cuGraphNodeSetEnabled", &[executable, node, 1]);
    ok("cuGraphLaunch", &[executable, stream]);
    ok("cuStreamSynchronize", &[stream]);
    expect_eq!(device::noted(log)[2..], [2]);

    let mut result = [9_usize; 3];
    let other = self::graph();
    add_kernel(other, &[], push, &[log as u64, 4]);
    ok("cuGraphExecUpdate_v2", &[executable, other, place(&mut result)]);
    expect_eq!(result[0] as u32, 0);
    ok("cuGraphLaunch", &[executable, stream]);
    ok("cuStreamSynchronize", &[stream]);
    expect_eq!(device::noted(log)[3..], [4]);
    add_kernel(other, &[], push, &[log as u64, 5]);
    expect_eq!(call("cuGraphExecUpdate_v2", &[executable, other, place(&mut result)]), UPDATE_FAILURE);
    expect_eq!(result[0] as u32, 2, "the topology changed");
    let third = self::graph();
    add(third, "cuGraphAddEmptyNode", &[], &[]);
    expect_eq!(call("cuGraphExecUpdate_v2", &[executable, third, place(&mut result)]), UPDATE_FAILURE);
    expect_eq!(result[0] as u32, 3, "the kind of a node changed");
}

#[test]
fn a_librarys_kernel_and_a_node_of_any_kind() {
    context(0);
    let to = memory(4);
    let library = get("cuLibraryLoadData", &[place(&mut *image()), 0, 0, 0, 0, 0, 0]);
    let kernel = get("cuLibraryGetKernel", &[library, place(&mut *b"store\0".to_vec())]);
    let graph = graph();
    let (mut address, mut value) = (to as u64, 6_u64);
    let mut places = [place(&mut address), place(&mut value)];
    let mut any = [0_usize; 32];
    any[2..11].copy_from_slice(&one_thread(0, kernel, &mut places));
    get("cuGraphAddNode_v2", &[graph, 0, 0, 0, place(&mut any)]);
    run(graph);
    expect_eq!(words(to, 1), [6]);
    let mut node = 0_usize;
    any[0] = 13;
    let added = call("cuGraphAddNode_v2", &[place(&mut node), graph, 0, 0, 0, place(&mut any)]);
    let of_no_kind = if on_a_gpu() { INVALID_VALUE } else { NOT_SUPPORTED };
    expect_eq!(added, of_no_kind, "conditional nodes are not simulated");
}

#[test]
fn what_is_no_graph_is_refused() {
    context(0);
    let (graph, function, mut node) = (graph(), kernel("store"), 0_usize);
    let node = place(&mut node);
    let mut nothing = one_thread(0, 0, &mut []);
    let mut none = one_thread(function, 0, &mut []);
    none[5] = 0;
    let (mut to, mut value) = (memory(4), 0_usize);
    let mut places = [place(&mut to), place(&mut value)];
    let mut large = one_thread(function, 0, &mut places);
    large[2] = 2000 << 32 | 1;
    for (arguments, expected) in [
        ([node, 12345, 0, 0, place(&mut none)], INVALID_VALUE),
        ([node, graph, 0, 1, place(&mut none)], INVALID_VALUE),
        ([node, graph, place(&mut [12345_usize]), 1, place(&mut none)], INVALID_VALUE),
        ([0, graph, 0, 0, place(&mut none)], INVALID_VALUE),
        ([node, graph, 0, 0, place(&mut none)], INVALID_VALUE),
        ([node, graph, 0, 0, place(&mut large)], INVALID_VALUE),
        ([node, graph, 0, 0, place(&mut nothing)], INVALID_HANDLE),
        ([node, graph, 0, 0, 0], INVALID_VALUE),
    ] {
        // NVIDIA's driver follows what is no graph, no node and no place.
        if !on_a_gpu() || arguments == [node, graph, 0, 0, place(&mut large)] {
            expect_eq!(call("cuGraphAddKernelNode_v2", &arguments), expected);
        }
    }
    expect_eq!(
        call("cuGraphAddMemsetNode", &[node, graph, 0, 0, place(&mut [4096_usize, 0, 4 << 32, 1, 1]), 0]),
        INVALID_VALUE
    );
    if on_a_gpu() {
        // The same for functions, events and graphs.
        return;
    }
    expect_eq!(call("cuGraphAddHostNode", &[node, graph, 0, 0, place(&mut [0_usize, 0])]), INVALID_VALUE);
    expect_eq!(call("cuGraphAddEventWaitNode", &[node, graph, 0, 0, 12345]), INVALID_HANDLE);
    assert!(list("cuGraphGetNodes", graph).is_empty());
    run(graph);
    ok("cuGraphDestroy", &[graph]);
    for name in ["cuGraphDestroy", "cuGraphExecDestroy", "cuGraphDestroyNode"] {
        assert_ne!(call(name, &[graph]), 0, "{name}");
    }
    expect_eq!(call("cuGraphLaunch", &[graph, 0]), INVALID_VALUE);
}

/// A graph that allocates memory, stores to it, copies that elsewhere, and frees it or not.
fn allocates(target: usize, frees: bool) -> (usize, usize) {
    let (stream, store) = (stream(), kernel("store"));
    // Of this thread alone: others allocate meanwhile.
    ok("cuStreamBeginCapture_v2", &[stream, 1]);
    let memory = get("cuMemAllocAsync", &[4, stream]);
    launch(store, stream, &[memory as u64, 11]);
    ok("cuMemcpyDtoDAsync_v2", &[target, memory, 4, stream]);
    if frees {
        ok("cuMemFreeAsync", &[memory, stream]);
    }
    (last("cuStreamEndCapture", &[stream]), memory)
}

/// Bytes of the current context's device.
fn free_memory() -> usize {
    get("cuMemGetInfo_v2", &[place(&mut 0_usize)])
}

#[test]
fn memory_that_a_graph_allocates() {
    context(1);
    let (target, stream) = (memory(4), stream());
    let (graph, inside) = allocates(target, true);
    expect_eq!(kinds(graph), [10, 0, 1, 11]);
    run(graph);
    run(graph);
    expect_eq!(words(target, 1), [11]);
    expect_eq!(call("cuMemFree_v2", &[inside]), INVALID_VALUE, "the graph has freed it");
    // It can be freed elsewhere, and must be before it is allocated again.
    let (graph, inside) = allocates(target, false);
    let executable = instantiate(graph);
    ok("cuDeviceGraphMemTrim", &[device(1)]);
    let free = free_memory();
    ok("cuGraphLaunch", &[executable, stream]);
    ok("cuStreamSynchronize", &[stream]);
    expect_eq!(free_memory() < free, true, "it takes memory while that is there");
    expect_eq!(call("cuGraphLaunch", &[executable, stream]), INVALID_VALUE);
    ok("cuMemFreeAsync", &[inside, stream]);
    expect_eq!(call("cuMemFreeAsync", &[inside, stream]), INVALID_VALUE);
    ok("cuGraphLaunch", &[executable, stream]);
    ok("cuStreamSynchronize", &[stream]);
    expect_eq!(words(inside, 1), [11]);
    ok("cuMemFree_v2", &[inside]);
    // The memory is the graph's, and of one that is instantiated at a time.
    let (mut made, mut node) = (0_usize, 0_usize);
    let made = place(&mut made);
    expect_eq!(call("cuGraphInstantiateWithFlags", &[made, graph, 0]), NOT_SUPPORTED);
    expect_eq!(call("cuGraphClone", &[made, graph]), NOT_SUPPORTED);
    let parent = self::graph();
    let added = call("cuGraphAddChildGraphNode", &[place(&mut node), parent, 0, 0, graph]);
    expect_eq!(added, NOT_SUPPORTED);
    expect_eq!(call("cuGraphDestroyNode", &[list("cuGraphGetNodes", graph)[2]]), NOT_SUPPORTED);
    ok("cuGraphExecDestroy", &[executable]);
    const AUTO_FREE: usize = 1;
    let executable = get("cuGraphInstantiateWithFlags", &[graph, AUTO_FREE]);
    ok("cuGraphLaunch", &[executable, stream]);
    ok("cuGraphLaunch", &[executable, stream]);
    ok("cuMemFreeAsync", &[inside, stream]);
    ok("cuStreamSynchronize", &[stream]);
    if on_a_gpu() {
        // Nothing would work any more after an illegal address.
        return;
    }
    // Kernels do not find what was freed.
    launch(kernel("store"), stream, &[inside as u64, 1]);
    expect_eq!(call("cuStreamSynchronize", &[stream]), ILLEGAL_ADDRESS);
}

#[test]
fn nodes_that_allocate_and_free() {
    // Nobody else allocates there.
    let device = device(2);
    context(device);
    let graph = graph();
    let free = free_memory();
    const PINNED: u64 = 1;
    let on_device = (device as u64) << 32 | 1;
    let mut parameters = [PINNED, on_device, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 << 20, 0];
    let allocates = add(graph, "cuGraphAddMemAllocNode", &[], &[place(&mut parameters)]);
    let address = parameters[14] as usize;
    expect_eq!(free_memory(), free, "so far there are only addresses");
    let frees = add(graph, "cuGraphAddMemFreeNode", &[allocates], &[address]);
    expect_eq!(last("cuGraphMemFreeNodeGetParams", &[frees]), address);
    let mut found = [0_u64; 15];
    ok("cuGraphMemAllocNodeGetParams", &[allocates, place(&mut found)]);
    if on_a_gpu() {
        // A pointer to no accesses, where NVIDIA's driver leaves what was there.
        found[11] = 0;
    }
    expect_eq!(found, parameters);
    let mut node = 0_usize;
    expect_eq!(call("cuGraphAddMemFreeNode", &[place(&mut node), graph, 0, 0, 4096]), INVALID_VALUE);
    run(graph);
    ok("cuDeviceGraphMemTrim", &[device]);
    if !on_a_gpu() {
        // NVIDIA's driver has taken memory of its own meanwhile.
        expect_eq!(free_memory(), free);
    }
    ok("cuGraphDestroy", &[graph]);
}
