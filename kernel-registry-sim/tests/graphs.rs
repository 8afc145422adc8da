//! Graphs that are made node by node, or captured with memory, and launched.

mod device;

use device::*;

/// `CUDA_KERNEL_NODE_PARAMS` of one thread.
fn one_thread(function: usize, kernel: usize, arguments: &mut [usize]) -> [usize; 9] {
    const ONE: usize = 1 << 32 | 1;
    [function, ONE, ONE, ONE, 0, place(arguments), 0, kernel, 0]
}

/// Adds a node that launches one thread with these arguments, after others.
fn add_kernel(graph: usize, after: &[usize], function: usize, arguments: &[u64]) -> usize {
    let mut arguments = arguments.to_vec();
    let mut places: Vec<usize> = arguments.iter_mut().map(place).collect();
    let mut after = after.to_vec();
    let mut parameters = one_thread(function, 0, &mut places);
    get("cuGraphAddKernelNode_v2", &[graph, place(&mut *after), after.len(), place(&mut parameters)])
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
    let last = add_kernel(graph, &[after, sets], push, &[log as u64, 4]);
    run(graph);
    expect_eq!(noted(log), [1, 2, 3, 4]);
    expect_eq!(list("cuGraphGetNodes", graph), [first, waits, after, other, sets, last]);
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
    // Destroying a graph does not affect its executable graphs.
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

#[test]
fn a_clone_has_nodes_of_its_own() {
    context(0);
    let (log, push) = (memory(64), kernel("push"));
    let graph = graph();
    let first = add_kernel(graph, &[], push, &[log as u64, 1]);
    add_kernel(graph, &[first], push, &[log as u64, 2]);
    let clone = get("cuGraphClone", &[graph]);
    let nodes = list("cuGraphGetNodes", clone);
    assert!(nodes.len() == 2 && !nodes.contains(&first));
    let mut node = 0_usize;
    let mut parameters = one_thread(push, 0, &mut []);
    let behind = [place(&mut node), graph, place(&mut [nodes[0]]), 1, place(&mut parameters)];
    // NVIDIA's driver reads what it takes for a node of this graph, and may crash.
    if !on_a_gpu() {
        assert_eq!(call("cuGraphAddKernelNode_v2", &behind), INVALID_VALUE, "a node of another graph");
    }
    ok("cuGraphDestroy", &[graph]);
    run(clone);
    expect_eq!(noted(log), [1, 2]);
}

#[test]
fn a_librarys_kernel_is_a_node() {
    context(0);
    let to = memory(4);
    let library = get("cuLibraryLoadData", &[place(&mut *image()), 0, 0, 0, 0, 0, 0]);
    let kernel = get("cuLibraryGetKernel", &[library, place(&mut *b"store\0".to_vec())]);
    let graph = graph();
    let (mut address, mut value) = (to as u64, 6_u64);
    let mut places = [place(&mut address), place(&mut value)];
    get("cuGraphAddKernelNode_v2", &[graph, 0, 0, place(&mut one_thread(0, kernel, &mut places))]);
    run(graph);
    expect_eq!(words(to, 1), [6]);
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
        // NVIDIA's driver dereferences invalid graphs, nodes and addresses.
        if !on_a_gpu() || arguments == [node, graph, 0, 0, place(&mut large)] {
            expect_eq!(call("cuGraphAddKernelNode_v2", &arguments), expected);
        }
    }
    if on_a_gpu() {
        // The same for graphs.
        return;
    }
    assert!(list("cuGraphGetNodes", graph).is_empty());
    run(graph);
    ok("cuGraphDestroy", &[graph]);
    for name in ["cuGraphDestroy", "cuGraphExecDestroy"] {
        assert_ne!(call(name, &[graph]), 0, "{name}");
    }
    expect_eq!(call("cuGraphLaunch", &[graph, 0]), INVALID_VALUE);
}

/// A graph that allocates memory, stores to it, copies that elsewhere, and frees it or not.
fn allocates(target: usize, frees: bool) -> (usize, usize) {
    let (stream, store) = (stream(), kernel("store"));
    // Mode 1 concerns this thread alone, because others allocate meanwhile.
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
    let mut made = 0_usize;
    let made = place(&mut made);
    expect_eq!(call("cuGraphInstantiateWithFlags", &[made, graph, 0]), NOT_SUPPORTED);
    expect_eq!(call("cuGraphClone", &[made, graph]), NOT_SUPPORTED);
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
    // Kernels cannot access freed memory.
    launch(kernel("store"), stream, &[inside as u64, 1]);
    expect_eq!(call("cuStreamSynchronize", &[stream]), ILLEGAL_ADDRESS);
}
