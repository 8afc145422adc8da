//! Tests launching captured graphs, with and without memory of their own.

mod device;

use device::*;

#[test]
fn a_launch_has_its_place_in_its_stream() {
    context(0);
    let (log, stream, push) = (memory(64), stream(), kernel("push"));
    // Mode 1 affects only this thread. Other threads allocate memory meanwhile, which a global capture would forbid.
    ok("cuStreamBeginCapture_v2", &[stream, 1]);
    for number in [1, 2, 3] {
        launch(push, stream, &[log as u64, number]);
    }
    let graph = last("cuStreamEndCapture", &[stream]);
    let executable = instantiate(graph);
    // Destroying a graph does not affect its executable graphs.
    ok("cuGraphDestroy", &[graph]);
    launch(push, stream, &[log as u64, 10]);
    ok("cuGraphUpload", &[executable, stream]);
    ok("cuGraphLaunch", &[executable, stream]);
    launch(push, stream, &[log as u64, 20]);
    // A launch in another stream waits for the earlier launch of the same graph.
    ok("cuGraphLaunch", &[executable, self::stream()]);
    ok("cuCtxSynchronize", &[]);
    let noted = noted(log);
    expect_eq!((noted[..4].to_vec(), noted.len()), (vec![10, 1, 2, 3], 8), "{noted:?}");
}

#[test]
fn invalid_graph_handles_are_refused() {
    context(0);
    if on_a_gpu() {
        // NVIDIA's driver dereferences invalid graphs.
        return;
    }
    let stream = stream();
    ok("cuStreamBeginCapture_v2", &[stream, 1]);
    let graph = last("cuStreamEndCapture", &[stream]);
    run(graph);
    ok("cuGraphDestroy", &[graph]);
    for name in ["cuGraphDestroy", "cuGraphExecDestroy"] {
        assert_ne!(call(name, &[graph]), 0, "{name}");
    }
    expect_eq!(call("cuGraphLaunch", &[graph, 0]), INVALID_VALUE);
}

/// Captures a graph that allocates memory, stores to it, copies from it, and frees it if `frees`. Returns the graph and
/// the address.
fn allocates(target: usize, frees: bool) -> (usize, usize) {
    let (stream, store) = (stream(), kernel("store"));
    ok("cuStreamBeginCapture_v2", &[stream, 1]);
    let memory = get("cuMemAllocAsync", &[4, stream]);
    launch(store, stream, &[memory as u64, 11]);
    ok("cuMemcpyDtoDAsync_v2", &[target, memory, 4, stream]);
    if frees {
        ok("cuMemFreeAsync", &[memory, stream]);
    }
    (last("cuStreamEndCapture", &[stream]), memory)
}

/// Returns the free bytes of the current context's device.
fn free_memory() -> usize {
    get("cuMemGetInfo_v2", &[place(&mut 0_usize)])
}

#[test]
fn graphs_allocate_and_free_memory() {
    context(1);
    let (target, stream) = (memory(4), stream());
    let (graph, inside) = allocates(target, true);
    run(graph);
    run(graph);
    expect_eq!(words(target, 1), [11]);
    expect_eq!(call("cuMemFree_v2", &[inside]), INVALID_VALUE, "the graph has freed it");
    // The memory can be freed elsewhere, and must be freed before the graph allocates it again.
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
    // A graph with memory of its own can have only one executable graph at a time.
    let mut made = 0_usize;
    let made = place(&mut made);
    expect_eq!(call("cuGraphInstantiateWithFlags", &[made, graph, 0]), NOT_SUPPORTED);
    ok("cuGraphExecDestroy", &[executable]);
    const AUTO_FREE: usize = 1;
    let executable = get("cuGraphInstantiateWithFlags", &[graph, AUTO_FREE]);
    ok("cuGraphLaunch", &[executable, stream]);
    ok("cuGraphLaunch", &[executable, stream]);
    ok("cuMemFreeAsync", &[inside, stream]);
    ok("cuStreamSynchronize", &[stream]);
    if on_a_gpu() {
        // After an illegal address nothing would work any more on a GPU.
        return;
    }
    // Kernels cannot access freed memory.
    launch(kernel("store"), stream, &[inside as u64, 1]);
    expect_eq!(call("cuStreamSynchronize", &[stream]), ILLEGAL_ADDRESS);
}
