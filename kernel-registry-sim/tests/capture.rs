//! Tests stream capture: which calls become nodes of a graph, and which invalidate a capture.

mod device;
mod serial;

use std::thread;

use device::*;

const GLOBAL: usize = 0;
const THREAD_LOCAL: usize = 1;
const RELAXED: usize = 2;

/// A context for a test beside which no other test runs, because calls of other threads would disturb a capture in
/// global mode.
struct Alone {
    context: usize,
    _turn: serial::Turn,
}

fn alone() -> Alone {
    let _turn = serial::take();
    Alone { context: context(0), _turn }
}

impl Drop for Alone {
    fn drop(&mut self) {
        call("cuCtxDestroy_v2", &[self.context]);
    }
}

fn begin(stream: usize, mode: usize) {
    ok("cuStreamBeginCapture_v2", &[stream, mode]);
}

/// Ends a capture, and returns the error code and the graph.
fn end(stream: usize) -> (u32, usize) {
    let mut graph = 1_usize;
    let code = call("cuStreamEndCapture", &[stream, place(&mut graph)]);
    (code, graph)
}

#[track_caller]
fn graph_of(stream: usize) -> usize {
    let (code, graph) = end(stream);
    expect_eq!(code, 0);
    graph
}

fn status(stream: usize) -> usize {
    last("cuStreamIsCapturing", &[stream])
}

fn record(event: usize, stream: usize) {
    ok("cuEventRecord", &[event, stream]);
}

fn wait(stream: usize, event: usize) {
    ok("cuStreamWaitEvent", &[stream, event, 0]);
}

#[test]
fn streams_fork_and_join() {
    let _alone = alone();
    let (log, flag) = (memory(64), memory(4));
    let (push, wait_for, store) = (kernel("push"), kernel("await"), kernel("store"));
    let (origin, other) = (stream(), stream());
    let (fork, join) = (event(), event());
    begin(origin, GLOBAL);
    launch(push, origin, &[log as u64, 1]);
    record(fork, origin);
    wait(other, fork);
    expect_eq!((status(origin), status(other)), (1, 1));
    launch(wait_for, origin, &[flag as u64]);
    launch(push, origin, &[log as u64, 3]);
    launch(push, other, &[log as u64, 2]);
    launch(store, other, &[flag as u64, 1]);
    record(join, other);
    wait(origin, join);
    launch(push, origin, &[log as u64, 4]);
    let graph = graph_of(origin);
    expect_eq!((status(origin), status(other)), (0, 0));
    // Capturing ran nothing.
    assert!(noted(log).is_empty());
    run(graph);
    expect_eq!(noted(log), [1, 2, 3, 4]);
}

#[test]
fn all_kinds_of_work_are_captured() {
    let _alone = alone();
    let (a, b, word) = (memory(16), memory(16), memory(4));
    // The host memory is pinned, because NVIDIA's driver lost the host function's writes to pageable memory.
    let host_address = get("cuMemHostAlloc", &[16, 0]);
    // SAFETY: the memory is never freed, and the graph uses it only while the test waits.
    let host = unsafe { &mut *std::ptr::with_exposed_provenance_mut::<[u32; 4]>(host_address) };
    let stream = stream();
    extern "C" fn double(data: usize) {
        // SAFETY: the test passes a word that lives until the graph has ended.
        unsafe { *std::ptr::with_exposed_provenance_mut::<u32>(data) *= 2 };
    }
    begin(stream, GLOBAL);
    ok("cuMemsetD32Async", &[a, 21, 4, stream]);
    ok("cuMemcpyDtoDAsync_v2", &[b, a, 16, stream]);
    ok("cuMemcpyDtoHAsync_v2", &[host_address, b, 16, stream]);
    ok("cuLaunchHostFunc", &[stream, double as *const () as usize, host_address + 12]);
    ok("cuMemcpyHtoDAsync_v2", &[a, host_address, 16, stream]);
    ok("cuStreamWriteValue32_v2", &[stream, word, 5, 0]);
    ok("cuStreamWaitValue32_v2", &[stream, word, 5, 1]);
    let graph = graph_of(stream);
    run(graph);
    expect_eq!(*host, [21, 21, 21, 42]);
    expect_eq!(words(a, 4), *host);
    expect_eq!(words(word, 1), [5]);
}

#[test]
fn streams_that_are_not_joined_invalidate_a_capture() {
    let _alone = alone();
    let (origin, other) = (stream(), stream());
    let (fork, join, log, push) = (event(), event(), memory(64), kernel("push"));
    begin(origin, GLOBAL);
    record(fork, origin);
    wait(other, fork);
    launch(push, other, &[log as u64, 1]);
    expect_eq!(end(origin), (CAPTURE_UNJOINED, 0));
    expect_eq!((status(origin), status(other)), (0, 0));

    // Ending a capture in another stream than its origin fails, and invalidates the capture.
    begin(origin, GLOBAL);
    record(fork, origin);
    wait(other, fork);
    expect_eq!(end(other), (CAPTURE_UNMATCHED, 0));
    expect_eq!(call("cuEventRecord", &[join, other]), CAPTURE_INVALIDATED);
    expect_eq!(end(origin), (CAPTURE_INVALIDATED, 0));
    expect_eq!(end(origin).0, ILLEGAL_STATE);

    // A stream to which no work was submitted needs no join.
    begin(origin, GLOBAL);
    record(fork, origin);
    wait(other, fork);
    expect_eq!(end(origin).0, 0);
}

#[test]
fn captures_cannot_be_merged() {
    let _alone = alone();
    let (one, two, memory) = (stream(), stream(), memory(4));
    let (event, uncaptured) = (event(), event());
    record(uncaptured, two);
    ok("cuStreamSynchronize", &[two]);
    begin(one, GLOBAL);
    expect_eq!(call("cuStreamBeginCapture_v2", &[one, GLOBAL]), ILLEGAL_STATE);
    begin(two, GLOBAL);
    record(event, one);
    expect_eq!(call("cuStreamWaitEvent", &[two, event, 0]), CAPTURE_MERGE);
    expect_eq!((end(one).0, end(two).0), (CAPTURE_INVALIDATED, CAPTURE_INVALIDATED));
    expect_eq!(call("cuStreamWaitEvent", &[two, event, 0]), INVALID_VALUE, "nothing of it is left");

    begin(one, GLOBAL);
    expect_eq!(call("cuStreamWaitEvent", &[one, uncaptured, 0]), CAPTURE_ISOLATION);
    expect_eq!(status(one), 2);
    expect_eq!(call("cuMemsetD8Async", &[memory, 0, 4, one]), CAPTURE_INVALIDATED);
    expect_eq!(end(one), (CAPTURE_INVALIDATED, 0));

    begin(one, RELAXED);
    record(event, one);
    let mut time = 0_f32;
    let asked = [
        ("cuEventQuery", &[event][..]),
        ("cuEventSynchronize", &[event]),
        ("cuEventElapsedTime_v2", &[place(&mut time), event, event]),
    ];
    // The first call invalidates the capture, so the event is invalid for the other calls.
    for ((name, arguments), expected) in asked.into_iter().zip([CAPTURED_EVENT, INVALID_VALUE, INVALID_VALUE])
    {
        expect_eq!(call(name, arguments), expected, "{name}");
    }
    expect_eq!(end(one).0, CAPTURE_INVALIDATED);
    // Recorded outside a capture, the event is an ordinary one again.
    record(event, one);
    ok("cuEventSynchronize", &[event]);
}

#[test]
fn calls_that_wait_cannot_be_captured() {
    let _alone = alone();
    let stream = stream();
    begin(stream, RELAXED);
    let executable = instantiate(graph_of(stream));
    for (name, arguments) in [
        ("cuStreamSynchronize", &[stream][..]),
        ("cuStreamQuery", &[stream]),
        ("cuCtxSynchronize", &[]),
        ("cuGraphLaunch", &[executable, stream]),
        ("cuGraphUpload", &[executable, stream]),
    ] {
        begin(stream, RELAXED);
        expect_eq!(call(name, arguments), CAPTURE_UNSUPPORTED, "{name}");
        expect_eq!(end(stream), (CAPTURE_INVALIDATED, 0), "{name}");
    }
    ok("cuStreamSynchronize", &[stream]);
}

#[test]
fn the_default_stream_cannot_be_captured_or_used_beside_a_captured_blocking_stream() {
    let _alone = alone();
    let (blocking, memory) = (get("cuStreamCreate", &[0]), memory(4));
    let mut graph = 0_usize;
    for legacy in [0, 1] {
        expect_eq!(call("cuStreamBeginCapture_v2", &[legacy, GLOBAL]), CAPTURE_UNSUPPORTED);
        expect_eq!(call("cuStreamEndCapture", &[legacy, place(&mut graph)]), ILLEGAL_STATE);
        begin(blocking, RELAXED);
        // A query does not invalidate the capture.
        expect_eq!(call("cuStreamIsCapturing", &[legacy, place(&mut graph)]), CAPTURE_IMPLICIT);
        expect_eq!(status(blocking), 1);
        expect_eq!(call("cuMemsetD8Async", &[memory, 1, 4, legacy]), CAPTURE_IMPLICIT);
        expect_eq!(end(blocking).0, CAPTURE_INVALIDATED);
    }
    begin(blocking, RELAXED);
    let mut host = [0_u32];
    expect_eq!(call("cuMemcpyDtoH_v2", &[place(&mut host), memory, 4]), CAPTURE_IMPLICIT);
    expect_eq!(end(blocking).0, CAPTURE_INVALIDATED);
    // A non-blocking stream does not affect the default stream.
    let other = stream();
    begin(other, RELAXED);
    ok("cuMemsetD8Async", &[memory, 1, 4, 0]);
    expect_eq!(end(other).0, 0);
    expect_eq!(words(memory, 1), [0x0101_0101]);
}

/// Makes a call that could disturb a capture in another thread, after setting the mode of that thread. Returns the
/// result of the call.
fn elsewhere(context: usize, mode: usize) -> u32 {
    thread::scope(|scope| {
        let call = move || {
            ok("cuCtxSetCurrent", &[context]);
            let mut exchanged = mode as u32;
            ok("cuThreadExchangeStreamCaptureMode", &[place(&mut exchanged)]);
            expect_eq!(exchanged as usize, GLOBAL, "as every thread begins");
            let mut memory = 0_usize;
            call("cuMemAlloc_v2", &[place(&mut memory), 4])
        };
        scope.spawn(call).join().unwrap()
    })
}

#[test]
fn modes_forbid_unsafe_calls_of_threads() {
    let alone = alone();
    let (stream, event, address, pinned) = (stream(), event(), memory(4), get("cuMemHostAlloc", &[4, 0]));
    record(event, stream);
    ok("cuStreamSynchronize", &[stream]);
    let mut memory = 0_usize;
    let memory = place(&mut memory);
    for (name, arguments) in [
        ("cuMemAlloc_v2", &[memory, 4][..]),
        ("cuMemAllocManaged", &[memory, 4, 1]),
        ("cuMemHostAlloc", &[memory, 4, 0]),
        ("cuMemFree_v2", &[address]),
        ("cuMemFreeHost", &[pinned]),
        ("cuEventQuery", &[event]),
        ("cuEventSynchronize", &[event]),
    ] {
        for (mode, expected) in
            [(GLOBAL, CAPTURE_UNSUPPORTED), (THREAD_LOCAL, CAPTURE_UNSUPPORTED), (RELAXED, 0)]
        {
            // The memory is freed only in the last round, because the earlier calls fail.
            begin(stream, mode);
            expect_eq!(call(name, arguments), expected, "{name} in mode {mode}");
            expect_eq!(end(stream).0, if expected == 0 { 0 } else { CAPTURE_INVALIDATED }, "{name}");
        }
    }
    // A capture in global mode also forbids the call in other threads whose own mode is global.
    begin(stream, GLOBAL);
    expect_eq!(elsewhere(alone.context, THREAD_LOCAL), 0);
    expect_eq!(elsewhere(alone.context, RELAXED), 0);
    expect_eq!(status(stream), 1);
    expect_eq!(elsewhere(alone.context, GLOBAL), CAPTURE_UNSUPPORTED);
    expect_eq!(end(stream).0, CAPTURE_INVALIDATED);
    begin(stream, THREAD_LOCAL);
    expect_eq!(elsewhere(alone.context, GLOBAL), 0);
    expect_eq!(end(stream).0, 0);

    let mut mode = RELAXED as u32;
    ok("cuThreadExchangeStreamCaptureMode", &[place(&mut mode)]);
    begin(stream, GLOBAL);
    ok("cuMemAlloc_v2", &[memory, 4]);
    expect_eq!(end(stream).0, 0);
    ok("cuThreadExchangeStreamCaptureMode", &[place(&mut mode)]);
    expect_eq!(mode as usize, RELAXED);
    if on_a_gpu() {
        // NVIDIA's driver accepts any number as a mode.
        return;
    }
    let mut mode = 3_u32;
    expect_eq!(call("cuThreadExchangeStreamCaptureMode", &[place(&mut mode)]), INVALID_VALUE);
}

#[test]
fn a_capture_ends_in_its_thread() {
    let _alone = alone();
    let stream = stream();
    for (mode, expected) in
        [(GLOBAL, CAPTURE_WRONG_THREAD), (THREAD_LOCAL, CAPTURE_WRONG_THREAD), (RELAXED, 0)]
    {
        begin(stream, mode);
        let ended = thread::scope(|scope| scope.spawn(|| end(stream).0).join().unwrap());
        expect_eq!(ended, expected);
        // The call in the wrong thread failed, but it ended the capture.
        expect_eq!(end(stream).0, ILLEGAL_STATE);
    }
    begin(stream, GLOBAL);
    ok("cuStreamDestroy_v2", &[stream]);
    // The capture ended with its stream, so this call is allowed.
    memory(4);
}
