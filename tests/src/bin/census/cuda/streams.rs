//! Driver calls for streams, events and graphs.

use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr;

use kernel_registry::cudarc::driver::sys;

use super::{Done, call, current_context, get, pool_properties, zero};

pub(crate) use sys::CUevent_flags_enum as EventFlags;
pub(crate) use sys::CUstream_flags::{CU_STREAM_DEFAULT as BLOCKING, CU_STREAM_NON_BLOCKING as NON_BLOCKING};

/// Returns the default stream. The default stream and all blocking streams wait for each other.
pub(crate) fn legacy_stream() -> sys::CUstream {
    ptr::without_provenance_mut(1)
}

/// Returns the thread's default stream, which is a blocking stream.
pub(crate) fn per_thread_stream() -> sys::CUstream {
    ptr::without_provenance_mut(2)
}

pub(crate) fn stream(flags: sys::CUstream_flags) -> Done<sys::CUstream> {
    // SAFETY: there is a current context.
    get("cuStreamCreate", |stream| unsafe { sys::cuStreamCreate(stream, flags as u32) })
}

pub(crate) fn streams(count: usize) -> Done<Vec<sys::CUstream>> {
    (0..count).map(|_| stream(NON_BLOCKING)).collect()
}

/// Makes a stream of the highest priority.
pub(crate) fn urgent_stream() -> Done<sys::CUstream> {
    // The driver clamps this to its highest priority.
    const HIGHEST: i32 = -5;
    // SAFETY: there is a current context.
    get("cuStreamCreateWithPriority", |stream| unsafe {
        sys::cuStreamCreateWithPriority(stream, NON_BLOCKING as u32, HIGHEST)
    })
}

pub(crate) fn destroy_stream(stream: sys::CUstream) -> Done {
    // SAFETY: the stream is not used afterwards.
    call("cuStreamDestroy", unsafe { sys::cuStreamDestroy_v2(stream) })
}

pub(crate) fn synchronize_stream(stream: sys::CUstream) -> Done {
    // SAFETY: the stream is one of the current context.
    call("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream) })
}

/// Makes a stream wait until a word is 1.
pub(crate) fn wait_value(stream: sys::CUstream, word: sys::CUdeviceptr) -> Done {
    const EQUAL: u32 = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ as u32;
    // SAFETY: the word stays as long as the stream.
    call("cuStreamWaitValue32", unsafe { sys::cuStreamWaitValue32_v2(stream, word, 1, EQUAL) })
}

/// Makes a stream write 1 to a word.
pub(crate) fn write_value(stream: sys::CUstream, word: sys::CUdeviceptr) -> Done {
    // SAFETY: the word stays as long as the stream.
    call("cuStreamWriteValue32", unsafe { sys::cuStreamWriteValue32_v2(stream, word, 1, 0) })
}

/// Makes a stream call a host function that does nothing.
pub(crate) fn call_host(stream: sys::CUstream) -> Done {
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    // SAFETY: the function ignores its argument.
    call("cuLaunchHostFunc", unsafe { sys::cuLaunchHostFunc(stream, Some(nothing), ptr::null_mut()) })
}

pub(crate) fn event(flags: sys::CUevent_flags) -> Done<sys::CUevent> {
    // SAFETY: there is a current context.
    get("cuEventCreate", |event| unsafe { sys::cuEventCreate(event, flags as u32) })
}

pub(crate) fn record(event: sys::CUevent, stream: sys::CUstream) -> Done {
    // SAFETY: both are of the current context.
    call("cuEventRecord", unsafe { sys::cuEventRecord(event, stream) })
}

/// Makes a stream wait for an event.
pub(crate) fn wait_event(stream: sys::CUstream, event: sys::CUevent) -> Done {
    // SAFETY: both are of the current context.
    call("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(stream, event, 0) })
}

/// Returns whether a stream has reached an event.
pub(crate) fn has_come(event: sys::CUevent) -> Done<bool> {
    // SAFETY: the event is one of the current context.
    is_ready("cuEventQuery", unsafe { sys::cuEventQuery(event) })
}

/// Returns whether a stream is idle.
pub(crate) fn is_idle(stream: sys::CUstream) -> Done<bool> {
    // SAFETY: the stream is one of the current context.
    is_ready("cuStreamQuery", unsafe { sys::cuStreamQuery(stream) })
}

fn is_ready(name: &'static str, answer: sys::CUresult) -> Done<bool> {
    let is_ready = answer != sys::CUresult::CUDA_ERROR_NOT_READY;
    let answer = if is_ready { answer } else { sys::CUresult::CUDA_SUCCESS };
    call(name, answer).map(|()| is_ready)
}

/// Records an event and waits for it.
pub(crate) fn record_and_wait(event: sys::CUevent, stream: sys::CUstream) -> Done {
    record(event, stream)?;
    // SAFETY: both are of the current context.
    call("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event) })
}

pub(crate) fn destroy_event(event: sys::CUevent) -> Done {
    // SAFETY: the event is not used afterwards.
    call("cuEventDestroy", unsafe { sys::cuEventDestroy_v2(event) })
}

/// Captures the work that `body` submits to a stream as a graph. Ends the capture even after an error, and
/// returns the first error.
pub(crate) fn capture(stream: sys::CUstream, body: impl FnOnce() -> Done) -> Done<sys::CUgraph> {
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the stream is one of the current context.
    call("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(stream, mode) })?;
    let done = body();
    // SAFETY: the stream is being captured.
    let graph = get("cuStreamEndCapture", |graph| unsafe { sys::cuStreamEndCapture(stream, graph) });
    done.and(graph)
}

/// Creates a graph that launches a kernel once, with one block of 32 threads.
pub(crate) fn graph_of(kernel: sys::CUkernel, args: &mut [*mut c_void]) -> Done<sys::CUgraph> {
    let graph = new_graph()?;
    add_kernel(graph, &kernel_node(kernel, args)?)?;
    Ok(graph)
}

pub(crate) fn new_graph() -> Done<sys::CUgraph> {
    // SAFETY: there are no flags.
    get("cuGraphCreate", |graph| unsafe { sys::cuGraphCreate(graph, 0) })
}

/// Returns the parameters of a node that launches a kernel with one block of 32 threads.
pub(crate) fn kernel_node(
    kernel: sys::CUkernel,
    args: &mut [*mut c_void],
) -> Done<sys::CUDA_KERNEL_NODE_PARAMS> {
    // SAFETY: the structure is plain data, for which zero is valid.
    let mut node: sys::CUDA_KERNEL_NODE_PARAMS = unsafe { zeroed() };
    (node.gridDimX, node.gridDimY, node.gridDimZ) = (1, 1, 1);
    (node.blockDimX, node.blockDimY, node.blockDimZ) = (32, 1, 1);
    (node.kern, node.kernelParams) = (kernel, args.as_mut_ptr());
    node.ctx = current_context()?;
    Ok(node)
}

/// Adds a node that launches a kernel.
pub(crate) fn add_kernel(graph: sys::CUgraph, node: &sys::CUDA_KERNEL_NODE_PARAMS) -> Done<sys::CUgraphNode> {
    // SAFETY: the kernel's library is loaded, and the driver copies the arguments at once.
    get("cuGraphAddKernelNode", |added| unsafe {
        sys::cuGraphAddKernelNode_v2(added, graph, ptr::null(), 0, node)
    })
}

pub(crate) fn instantiate(graph: sys::CUgraph) -> Done<sys::CUgraphExec> {
    // SAFETY: the graph exists.
    get("cuGraphInstantiateWithFlags", |exec| unsafe { sys::cuGraphInstantiateWithFlags(exec, graph, 0) })
}

/// Uploads a graph to the device, and waits until the upload has ended.
pub(crate) fn upload_graph(graph: sys::CUgraphExec, stream: sys::CUstream) -> Done {
    // SAFETY: both are of the current context.
    call("cuGraphUpload", unsafe { sys::cuGraphUpload(graph, stream) })?;
    synchronize_stream(stream)
}

pub(crate) fn launch_graph(graph: sys::CUgraphExec, stream: sys::CUstream) -> Done {
    // SAFETY: both are of the current context.
    call("cuGraphLaunch", unsafe { sys::cuGraphLaunch(graph, stream) })
}

pub(crate) fn destroy_graph(graph: sys::CUgraphExec) -> Done {
    // SAFETY: the graph is not used afterwards.
    call("cuGraphExecDestroy", unsafe { sys::cuGraphExecDestroy(graph) })
}

/// Returns a batch's operation that writes 1 to a word. The operation's 48 bytes hold the kind, the address,
/// the number and the flags.
pub(crate) fn batch(word: sys::CUdeviceptr) -> [u64; 6] {
    const WRITE: u64 = 2;
    [WRITE, word, 1, 0, 0, 0]
}

/// Returns the parameters of a node that allocates memory. The driver stores the address in them.
pub(crate) fn allocation_node(bytes: usize) -> sys::CUDA_MEM_ALLOC_NODE_PARAMS {
    let mut node: sys::CUDA_MEM_ALLOC_NODE_PARAMS = zero();
    (node.poolProps, node.bytesize) = (pool_properties(0), bytes);
    node
}
