//! Hooks of calls that load kernels, or change limits.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::slice;

use cudarc::driver::sys::{CUDA_LAUNCH_PARAMS, CUfunction, CUlimit, CUresult, CUstream};
use kernel_registry_cuda::rules;

use super::guard;
use super::late;
use crate::record::{Kind, Limit, Subject};
use crate::watch::caller::Caller;
use crate::watch::events::timed;
use crate::watch::hang::busy;
use crate::watch::hang::unloaded::{self, UnloadedLaunch};
use crate::watch::known::limits::{self, Missing};
use crate::watch::known::mode::is_eager;
use crate::watch::known::{contexts, handles};
use crate::watch::loader::real::{Function, stored};
use crate::watch::record::call::{Call, stored_handle};
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::slots::{self, count_launch, during};
use crate::watch::{fault, preload, section};

/// Makes the launch of a kernel. If the kernel was launched before, this neither locks nor allocates.
#[inline]
pub(super) fn launch(
    call: Call,
    function: CUfunction,
    stream: CUstream,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let (kernel, stream) = (function.addr() as u64, stream.addr() as u64);
    let call = Call { subject: kernel, stream, ..call };
    if section::may_own(stream) {
        launch_in_stream_of_section(call, function, real)
    } else {
        launch_kernel(call, function, real)
    }
}

/// Makes a launch in a stream that may be the stream of a resident kernel.
#[cold]
fn launch_in_stream_of_section(
    call: Call,
    function: CUfunction,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    guard::launch(call, || kernel_name(function), || launch_kernel(call, function, real))
}

#[inline]
fn launch_kernel(call: Call, function: CUfunction, real: impl FnOnce() -> CUresult) -> CUresult {
    let key = contexts::key(call.subject, call.stream);
    if handles::is_launched(key) {
        fault::noted(call, slots::launch(call, real))
    } else {
        launch_first(call, key, function, real)
    }
}

/// Makes the first launch of a kernel.
#[cold]
fn launch_first(call: Call, key: u64, function: CUfunction, real: impl FnOnce() -> CUresult) -> CUresult {
    count_launch(call.stream, call.subject);
    // Hangs and samples name the kernel, so the driver is asked for the name now. Later the driver may wait.
    let kernel = kernel_name(function);
    let result = if !is_loaded(key, call.subject) {
        let running = busy::find_others(Some(call.stream));
        let (result, caller) = load(call, key, &kernel, real);
        if result == CUresult::CUDA_SUCCESS && !running.is_empty() {
            unloaded::add_launch(UnloadedLaunch::new(call, kernel, caller, running));
        }
        result
    } else if let Some(missing) = during(call, || limits::missing(function)) {
        enlarge(call, &kernel, missing, real)
    } else {
        timed(call, real)
    };
    if result == CUresult::CUDA_SUCCESS {
        handles::mark_launched(key);
    }
    result
}

/// Makes a launch that enlarges the stack, and records the enlargement.
fn enlarge(call: Call, kernel: &str, missing: Missing, real: impl FnOnce() -> CUresult) -> CUresult {
    let Missing { frame, limit } = missing;
    let words = || {
        format!(
            "`{}` of kernel `{kernel}`, which needs a stack of {frame} bytes and enlarges it from {limit}",
            call.name()
        )
    };
    let event = NewEvent { rule: Some(&rules::STACK), ..resize(Limit::Stack, frame, kernel) };
    late::make_call(call, event, "set the limit before the program is ready", words, real).0
}

/// Makes a call that loads a kernel, unless the kernel is loaded already.
pub(super) fn load_kernel(
    call: Call,
    function: CUfunction,
    out: Option<*mut CUfunction>,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let call = call.about(function);
    let key = contexts::key(call.subject, 0);
    let kernel = kernel_name(function);
    let loads = !is_requested(key, call.subject);
    let running = if loads { busy::find_others(None) } else { Vec::new() };
    let result = if loads { load(call, key, &kernel, real).0 } else { timed(call, real) };
    if result != CUresult::CUDA_SUCCESS {
        return result;
    }
    if let Some(handle) = out.and_then(|out| stored_handle(result, out)) {
        handles::add_handle(handle, call.subject);
        handles::mark_loaded(contexts::key(handle, 0));
        unloaded::add_taken(handle, running.clone());
    }
    unloaded::add_taken(call.subject, running);
    result
}

/// Makes a call that loads a kernel, and records the load. Returns the result of the call, and its caller.
fn load(call: Call, key: u64, kernel: &str, real: impl FnOnce() -> CUresult) -> (CUresult, Caller) {
    let image = handles::image_of(call.subject);
    let event = late::load_event(kernel, image.as_ref());
    let (result, caller) =
        late::make_call(call, event, late::LOAD_BEFORE, || late::describe(call, kernel), real);
    if result == CUresult::CUDA_SUCCESS {
        handles::mark_loaded(key);
        handles::mark_image_loaded(call.subject, contexts::find_for_stream(call.stream));
    }
    (result, caller)
}

/// Makes a call that sets a limit: a stack limit, or the size of a buffer.
pub(super) fn set_limit(
    call: Call,
    which: CUlimit,
    value: usize,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let Some(limit) = limits::limit_of(which) else { return timed(call, real) };
    let real = || preload::answer_to_limit(which, value, real());
    let is_stack = limit == Limit::Stack;
    let rule = is_stack.then_some(&rules::STACK_LIMIT);
    let words = || format!("`{}` ({} of {value} bytes)", call.name(), limit.as_str());
    let event = NewEvent { rule, ..resize(limit, value, "") };
    let result = late::make_call(call, event, "do it before the program is ready", words, real).0;
    if is_stack && result == CUresult::CUDA_SUCCESS {
        handles::forget_launches();
    }
    result
}

/// Returns the event of a limit that is set.
fn resize(limit: Limit, bytes: usize, kernel: &str) -> NewEvent<'_> {
    let subject = Subject::Limit { limit, bytes: bytes as u64, kernel };
    NewEvent { kind: Kind::Resize, subject, ..NewEvent::default() }
}

/// Returns whether a function, or a library's kernel in this context, is loaded.
pub(super) fn is_loaded(key: u64, kernel: u64) -> bool {
    is_requested(key, kernel) && !unloaded::is_waiting(kernel)
}

/// Returns whether a kernel is loaded, or will be loaded without another call: its loading may wait for kernels that
/// ran when its handle was obtained. The driver says in both cases that the kernel is loaded.
fn is_requested(key: u64, kernel: u64) -> bool {
    is_eager() || handles::is_loaded(key) || driver_says_loaded(kernel)
}

/// Returns whether the driver says that a function is loaded. The driver does not say so of a `CUkernel`.
fn driver_says_loaded(function: u64) -> bool {
    type IsLoaded = unsafe extern "C" fn(*mut u32, u64) -> CUresult;
    // SAFETY: this is the type of the function of that name.
    static IS_LOADED: Function<IsLoaded> = unsafe { Function::new(c"cuFuncIsLoaded") };
    let Some(is_loaded) = IS_LOADED.get() else { return false };
    // SAFETY: the handle is one pointer wide, and the program got it from the driver.
    stored(0, |state| unsafe { is_loaded(state, function) }) == Some(1)
}

/// Makes a call that adds or changes a kernel node of a graph, and loads the kernel. Nodes of other kinds have no
/// kernel.
pub(super) fn load_node(
    call: Call,
    function: Option<CUfunction>,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    match function.filter(|function| !function.is_null()) {
        Some(function) => load_kernel(call, function, None, real),
        None => timed(call, real),
    }
}

/// The parameters of a kernel node, in all versions. The first version ends with `parameters`.
#[repr(C)]
struct KernelNode {
    function: CUfunction,
    grid_and_block: [c_uint; 7],
    parameters: [*mut c_void; 2],
    kernel: CUfunction,
}

/// Returns the kernel of a node with parameters of the first version.
pub(super) fn first_node(params: *const c_void) -> Option<CUfunction> {
    // SAFETY: programs pass parameters or null. The function is the first field.
    (!params.is_null()).then(|| unsafe { params.cast::<CUfunction>().read() })
}

/// Returns the kernel of a node with parameters of a later version.
pub(super) fn kernel_node(params: *const c_void) -> Option<CUfunction> {
    // SAFETY: programs pass parameters or null.
    let KernelNode { function, kernel, .. } = unsafe { params.cast::<KernelNode>().as_ref() }?;
    Some(if function.is_null() { *kernel } else { *function })
}

/// Returns the kernel of a node with `CUgraphNodeParams`, if it is a kernel node.
pub(super) fn any_node(params: *const c_void) -> Option<CUfunction> {
    /// `CU_GRAPH_NODE_TYPE_KERNEL`.
    const KERNEL: c_uint = 0;
    /// The bytes of the kind, and of the reserved space after the kind.
    const HEADER: usize = 16;
    // SAFETY: programs pass parameters or null. The parameters of a kernel node follow its kind.
    unsafe {
        let is_kernel = !params.is_null() && params.cast::<c_uint>().read() == KERNEL;
        if is_kernel { kernel_node(params.byte_add(HEADER)) } else { None }
    }
}

/// Makes a call that launches on several devices.
pub(super) fn launch_on_all(
    call: Call,
    launches: *const CUDA_LAUNCH_PARAMS,
    count: c_uint,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    fn rest(call: Call, launches: &[CUDA_LAUNCH_PARAMS], real: &mut dyn FnMut() -> CUresult) -> CUresult {
        match launches {
            [] => real(),
            [first, others @ ..] => launch(call, first.function, first.hStream, || rest(call, others, real)),
        }
    }
    let (mut real, count) = (Some(real), if launches.is_null() { 0 } else { count as usize });
    // SAFETY: the program passes `count` launches.
    let launches = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(launches, count) } };
    rest(call, launches, &mut || real.take().map_or(CUresult::CUDA_SUCCESS, |real| real()))
}

/// Returns the kernel's name, from the call that gave the handle or from the driver.
pub(super) fn kernel_name(function: CUfunction) -> String {
    let handle = function.addr() as u64;
    if let Some(name) = handles::name_of(handle) {
        return name;
    }
    type GetName = unsafe extern "C" fn(*mut *const c_char, CUfunction) -> CUresult;
    // SAFETY: both functions have this type, except that the second calls the handle a `CUkernel`.
    static NAMES: [Function<GetName>; 2] =
        unsafe { [Function::new(c"cuFuncGetName"), Function::new(c"cuKernelGetName")] };
    for get in NAMES.iter().filter_map(Function::get) {
        // SAFETY: the program is about to use the handle, which is of either kind; the driver refuses a handle of the
        // other kind.
        let text = stored(std::ptr::null(), |text| unsafe { get(text, function) });
        if let Some(text) = text.filter(|text| !text.is_null()) {
            // SAFETY: the driver's text ends with a zero.
            let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
            handles::add_name(handle, &text, 0);
            return text;
        }
    }
    format!("kernel {handle:#x}")
}
