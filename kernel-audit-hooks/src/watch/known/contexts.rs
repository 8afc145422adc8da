//! Tracks contexts. A library's kernel has one handle for all contexts, but is loaded into each separately.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cudarc::driver::sys::{CUcontext, CUdevice, CUresult, CUstream};

use crate::watch::loader::real::{Function, driver_function, stored};
use crate::watch::process::locked::Locked;

static SEEN: Locked<Vec<u64>> = Locked::new();

/// The first context. Keys of kernels in it are their handles.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// Whether there's a second context. Only then do launches have to query theirs.
static HAS_SECOND: AtomicBool = AtomicBool::new(false);

/// Adds a context that was created or retained.
pub(crate) fn add(context: u64) {
    let mut seen = SEEN.lock();
    if !seen.contains(&context) {
        seen.push(context);
        let first = FIRST.compare_exchange(0, context, Ordering::Relaxed, Ordering::Relaxed);
        HAS_SECOND.fetch_or(first.is_err(), Ordering::Relaxed);
    }
}

/// Retained primary contexts, by device.
static PRIMARY: Locked<HashMap<CUdevice, Primary>> = Locked::new();

#[derive(Default)]
struct Primary {
    context: u64,
    /// The reference count.
    holds: usize,
}

/// Counts a retain of a device's primary context.
pub(crate) fn add_hold(context: u64, device: CUdevice) {
    let mut primary = PRIMARY.lock();
    let primary = primary.entry(device).or_default();
    *primary = Primary { context, holds: primary.holds + 1 };
}

/// Counts a release of a device's primary context.
pub(crate) fn remove_hold(device: CUdevice) {
    if let Some(primary) = PRIMARY.lock().get_mut(&device) {
        primary.holds = primary.holds.saturating_sub(1);
    }
}

/// Returns whether the next release destroys the primary context.
pub(crate) fn is_held_once(device: CUdevice) -> bool {
    PRIMARY.lock().get(&device).is_some_and(|primary| primary.holds == 1)
}

/// Returns a device's primary context, if it was retained.
pub(crate) fn find_primary(device: CUdevice) -> Option<u64> {
    PRIMARY.lock().get(&device).map(|primary| primary.context)
}

/// Returns all contexts seen so far.
pub(crate) fn list() -> Vec<u64> {
    SEEN.lock().clone()
}

/// Returns a kernel's key in a stream's context, for the tables of loaded and launched kernels.
#[inline]
pub(crate) fn key(kernel: u64, stream: u64) -> u64 {
    if HAS_SECOND.load(Ordering::Relaxed) { key_in(kernel, find_for_stream(stream)) } else { kernel }
}

/// Returns a kernel's key in a context.
pub(crate) fn key_in(kernel: u64, context: u64) -> u64 {
    if context == FIRST.load(Ordering::Relaxed) { kernel } else { kernel ^ context.rotate_left(24) }
}

/// The handles of the default streams, which belong to the current context.
const DEFAULT: [u64; 3] = [0, 1, 2];

/// Returns a stream's context.
#[cold]
pub(crate) fn find_for_stream(stream: u64) -> u64 {
    driver_function!(static GET = cuStreamGetCtx(CUstream, *mut CUcontext));
    let Some(get) = GET.get().filter(|_| !DEFAULT.contains(&stream)) else { return current() };
    let stream = ptr::without_provenance_mut::<std::ffi::c_void>(stream as usize);
    // SAFETY: the program is about to use this stream.
    let context = stored(ptr::null_mut(), |context| unsafe { get(stream.cast(), context) });
    context.map_or_else(current, |context| context.addr() as u64)
}

/// Returns whether a stream is a non-blocking one, which doesn't synchronize with the default stream.
pub(crate) fn is_non_blocking(stream: CUstream) -> bool {
    const NON_BLOCKING: u32 = 1;
    driver_function!(static GET = cuStreamGetFlags(CUstream, *mut u32));
    let flags = || {
        let get = GET.get()?;
        // SAFETY: the call stores a number. The program is about to use this stream.
        stored(0, |flags| unsafe { get(stream, flags) })
    };
    !DEFAULT.contains(&(stream.addr() as u64)) && flags().is_some_and(|flags| flags & NON_BLOCKING != 0)
}

/// Returns this thread's current context, or 0.
pub(crate) fn current() -> u64 {
    driver_function!(static GET = cuCtxGetCurrent(*mut CUcontext));
    let Some(get) = GET.get() else { return 0 };
    // SAFETY: the call stores a handle. It creates no context, and never waits.
    let context = stored(ptr::null_mut(), |context| unsafe { get(context) });
    context.map_or(0, |context| context.addr() as u64)
}

/// Returns a context's id, which is unique, while its address can be reused.
pub(crate) fn id(context: u64) -> u64 {
    driver_function!(static GET = cuCtxGetId(CUcontext, *mut u64));
    let Some(get) = GET.get() else { return context };
    // SAFETY: the call stores a number. The driver refuses a destroyed context.
    stored(0, |id| unsafe { get(handle(context), id) }).unwrap_or(context)
}

/// Returns this thread's current context, and its id.
pub(crate) fn current_with_id() -> (u64, u64) {
    let context = current();
    (context, id(context))
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub(crate) const RELAXED: u32 = 2;

/// Sets this thread's stream capture mode, and returns the former one.
pub(crate) fn exchange_capture_mode(mut mode: u32) -> u32 {
    type Exchange = unsafe extern "C" fn(*mut u32) -> CUresult;
    // SAFETY: this is the function's type: a mode is a C enumeration of 32 bits.
    static EXCHANGE: Function<Exchange> = unsafe { Function::new(c"cuThreadExchangeStreamCaptureMode") };
    if let Some(exchange) = EXCHANGE.get() {
        // SAFETY: the call exchanges the mode, or fails and leaves it unchanged.
        unsafe { exchange(&mut mode) };
    }
    mode
}

/// Returns the current context's device.
pub(crate) fn current_device() -> Option<CUdevice> {
    driver_function!(static GET = cuCtxGetDevice(*mut CUdevice));
    let get = GET.get()?;
    // SAFETY: the call stores a number.
    stored(0, |device| unsafe { get(device) })
}

/// Returns a context's device.
pub(crate) fn device_of(context: u64) -> Option<CUdevice> {
    within(context, current_device).flatten()
}

/// Calls `act` with a context as the current one. Returns `None` if the context was destroyed. This pushes and
/// pops, because the driver refuses to set the former context again if that was destroyed.
pub(crate) fn within<T>(context: u64, act: impl FnOnce() -> T) -> Option<T> {
    driver_function!(static PUSH = cuCtxPushCurrent_v2(CUcontext));
    driver_function!(static POP = cuCtxPopCurrent_v2(*mut CUcontext));
    if context == current() {
        return Some(act());
    }
    let (push, pop) = (PUSH.get()?, POP.get()?);
    // SAFETY: the driver refuses a destroyed context.
    if unsafe { push(handle(context)) } != CUresult::CUDA_SUCCESS {
        return None;
    }
    let result = act();
    let mut popped = ptr::null_mut();
    // SAFETY: the call stores the handle of the context that was pushed.
    unsafe { pop(&mut popped) };
    Some(result)
}

fn handle(context: u64) -> CUcontext {
    ptr::without_provenance_mut::<std::ffi::c_void>(context as usize).cast()
}
