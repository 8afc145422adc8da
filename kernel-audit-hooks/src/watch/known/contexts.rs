//! Keeps track of contexts. A library's kernel has one handle in all contexts, and is loaded in each context
//! separately.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cudarc::driver::sys::{CUcontext, CUdevice, CUresult, CUstream};

use crate::watch::loader::real::{Function, driver_function, stored};
use crate::watch::process::locked::Locked;

/// All contexts that were seen.
static SEEN: Locked<Vec<u64>> = Locked::new();

/// The first context. A kernel that is loaded in it is stored by its handle alone.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// Whether there is a second context. Only then does a launch ask for its context.
static MANY: AtomicBool = AtomicBool::new(false);

/// Remembers a context that was made or retained.
pub(crate) fn add(context: u64) {
    let mut seen = SEEN.lock();
    if !seen.contains(&context) {
        seen.push(context);
        let first = FIRST.compare_exchange(0, context, Ordering::Relaxed, Ordering::Relaxed);
        MANY.fetch_or(first.is_err(), Ordering::Relaxed);
    }
}

/// The primary contexts that were retained, by device.
static PRIMARY: Locked<HashMap<CUdevice, Primary>> = Locked::new();

#[derive(Default)]
struct Primary {
    context: u64,
    /// How often the context was retained and not released.
    holds: usize,
}

/// Counts that the primary context of a device was retained.
pub(crate) fn add_hold(context: u64, device: CUdevice) {
    let mut primary = PRIMARY.lock();
    let primary = primary.entry(device).or_default();
    *primary = Primary { context, holds: primary.holds + 1 };
}

/// Counts that the primary context of a device was released.
pub(crate) fn remove_hold(device: CUdevice) {
    if let Some(primary) = PRIMARY.lock().get_mut(&device) {
        primary.holds = primary.holds.saturating_sub(1);
    }
}

/// Returns whether the next release of the primary context ends it.
pub(crate) fn is_held_once(device: CUdevice) -> bool {
    PRIMARY.lock().get(&device).is_some_and(|primary| primary.holds == 1)
}

/// Returns the primary context of a device, if it was seen.
pub(crate) fn find_primary(device: CUdevice) -> Option<u64> {
    PRIMARY.lock().get(&device).map(|primary| primary.context)
}

/// Returns all contexts that were seen.
pub(crate) fn list() -> Vec<u64> {
    SEEN.lock().clone()
}

/// Returns the key of a kernel in the context of a stream, for the tables of loaded and launched kernels.
#[inline]
pub(crate) fn key(kernel: u64, stream: u64) -> u64 {
    if MANY.load(Ordering::Relaxed) { key_in(kernel, find_for_stream(stream)) } else { kernel }
}

/// Returns the key of a kernel in a context.
pub(crate) fn key_in(kernel: u64, context: u64) -> u64 {
    if context == FIRST.load(Ordering::Relaxed) { kernel } else { kernel ^ context.rotate_left(24) }
}

/// The handles of the default streams, which have no context of their own.
const DEFAULT: [u64; 3] = [0, 1, 2];

/// Returns the context of a stream. A default stream is that of the current context.
#[cold]
pub(crate) fn find_for_stream(stream: u64) -> u64 {
    driver_function!(static GET = cuStreamGetCtx(CUstream, *mut CUcontext));
    let Some(get) = GET.get().filter(|_| !DEFAULT.contains(&stream)) else { return current() };
    let stream = ptr::without_provenance_mut::<std::ffi::c_void>(stream as usize);
    // SAFETY: the program is about to launch in this stream.
    let context = stored(ptr::null_mut(), |context| unsafe { get(stream.cast(), context) });
    context.map_or_else(current, |context| context.addr() as u64)
}

/// Returns whether a stream is neither a default stream nor waits for a default stream. False if the stream does not
/// exist.
pub(crate) fn is_non_blocking(stream: CUstream) -> bool {
    const NON_BLOCKING: u32 = 1;
    driver_function!(static GET = cuStreamGetFlags(CUstream, *mut u32));
    let flags = || {
        let get = GET.get()?;
        // SAFETY: the call stores a number. The program is about to launch in this stream.
        stored(0, |flags| unsafe { get(stream, flags) })
    };
    !DEFAULT.contains(&(stream.addr() as u64)) && flags().is_some_and(|flags| flags & NON_BLOCKING != 0)
}

/// Returns the current context of this thread, or 0.
pub(crate) fn current() -> u64 {
    driver_function!(static GET = cuCtxGetCurrent(*mut CUcontext));
    let Some(get) = GET.get() else { return 0 };
    // SAFETY: the call stores a handle. It makes no context, and never waits.
    let context = stored(ptr::null_mut(), |context| unsafe { get(context) });
    context.map_or(0, |context| context.addr() as u64)
}

/// Returns the id of a context, which no other context gets. The address of a context may later stand for another
/// context.
pub(crate) fn id(context: u64) -> u64 {
    driver_function!(static GET = cuCtxGetId(CUcontext, *mut u64));
    let Some(get) = GET.get() else { return context };
    // SAFETY: the call stores a number. The driver refuses a context that is gone.
    stored(0, |id| unsafe { get(handle(context), id) }).unwrap_or(context)
}

/// Returns the current context of this thread, and its id.
pub(crate) fn current_with_id() -> (u64, u64) {
    let context = current();
    (context, id(context))
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub(crate) const RELAXED: u32 = 2;

/// Sets this thread's stream capture mode, and returns the former mode.
pub(crate) fn exchange_capture_mode(mut mode: u32) -> u32 {
    type Exchange = unsafe extern "C" fn(*mut u32) -> CUresult;
    // SAFETY: this is the type of the function of that name; a mode is a C enumeration of 32 bits.
    static EXCHANGE: Function<Exchange> = unsafe { Function::new(c"cuThreadExchangeStreamCaptureMode") };
    if let Some(exchange) = EXCHANGE.get() {
        // SAFETY: the call reads the mode, and stores the former mode. A driver that refuses leaves `mode` as it is.
        unsafe { exchange(&mut mode) };
    }
    mode
}

/// Returns the device of the current context.
pub(crate) fn current_device() -> Option<CUdevice> {
    driver_function!(static GET = cuCtxGetDevice(*mut CUdevice));
    let get = GET.get()?;
    // SAFETY: the call stores a number.
    stored(0, |device| unsafe { get(device) })
}

/// Returns the device of a context. The context is current meanwhile.
pub(crate) fn device_of(context: u64) -> Option<CUdevice> {
    within(context, current_device).flatten()
}

/// Calls `act` while a context is current. Returns `None` if the context is gone. The former context is pushed down and
/// not set again, because the driver refuses to set a context that is gone.
pub(crate) fn within<T>(context: u64, act: impl FnOnce() -> T) -> Option<T> {
    driver_function!(static PUSH = cuCtxPushCurrent_v2(CUcontext));
    driver_function!(static POP = cuCtxPopCurrent_v2(*mut CUcontext));
    if context == current() {
        return Some(act());
    }
    let (push, pop) = (PUSH.get()?, POP.get()?);
    // SAFETY: the driver refuses a context that is gone.
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
