//! Contexts: a library's kernel has one handle for all of them, and is loaded in each of its own.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cudarc::driver::sys::{CUcontext, CUdevice, CUresult, CUstream};

use crate::watch::locked::Locked;
use crate::watch::real::Function;

/// All contexts that were seen.
static SEEN: Locked<Vec<u64>> = Locked::new();

/// The first context. What is loaded there is stored by its handle alone.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// Whether there is another one. Only then a launch asks for its context.
static MANY: AtomicBool = AtomicBool::new(false);

/// A context was made, or retained.
pub(crate) fn seen(context: u64) {
    let mut seen = SEEN.lock();
    if !seen.contains(&context) {
        seen.push(context);
        let first = FIRST.compare_exchange(0, context, Ordering::Relaxed, Ordering::Relaxed);
        MANY.fetch_or(first.is_err(), Ordering::Relaxed);
    }
}

/// The primary contexts that were retained, by device.
static PRIMARY: Locked<HashMap<CUdevice, u64>> = Locked::new();

/// The primary context of a device was retained.
pub(crate) fn retained(context: u64, device: CUdevice) {
    PRIMARY.lock().insert(device, context);
}

/// The primary context of a device, if it was seen.
pub(crate) fn primary(device: CUdevice) -> Option<u64> {
    PRIMARY.lock().get(&device).copied()
}

/// All contexts that were seen.
pub(crate) fn all() -> Vec<u64> {
    SEEN.lock().clone()
}

pub(crate) fn forked() {
    SEEN.renew();
    PRIMARY.renew();
}

/// What stands for a kernel in the context of a stream, in the table of loaded kernels.
#[inline]
pub(crate) fn key(kernel: u64, stream: u64) -> u64 {
    if MANY.load(Ordering::Relaxed) { key_in(kernel, of_stream(stream)) } else { kernel }
}

/// What stands for a kernel in a context.
pub(crate) fn key_in(kernel: u64, context: u64) -> u64 {
    if context == FIRST.load(Ordering::Relaxed) { kernel } else { kernel ^ context.rotate_left(24) }
}

/// The context of a stream. The default stream is that of the current context.
#[cold]
fn of_stream(stream: u64) -> u64 {
    /// The handles of the default streams, which have no context of their own.
    const DEFAULT: [u64; 3] = [0, 1, 2];
    type GetContext = unsafe extern "C" fn(CUstream, *mut CUcontext) -> CUresult;
    // SAFETY: this is the type of the function of that name.
    static GET: Function<GetContext> = unsafe { Function::new(c"cuStreamGetCtx") };
    let Some(get) = GET.get().filter(|_| !DEFAULT.contains(&stream)) else { return current() };
    let mut context = ptr::null_mut();
    let stream = ptr::without_provenance_mut::<std::ffi::c_void>(stream as usize);
    // SAFETY: the program is about to launch in this stream.
    match unsafe { get(stream.cast(), &mut context) } {
        CUresult::CUDA_SUCCESS => context.addr() as u64,
        _ => current(),
    }
}

/// The current context of this thread, or 0.
pub(crate) fn current() -> u64 {
    type GetCurrent = unsafe extern "C" fn(*mut CUcontext) -> CUresult;
    // SAFETY: this is the type of the function of that name.
    static GET: Function<GetCurrent> = unsafe { Function::new(c"cuCtxGetCurrent") };
    let Some(get) = GET.get() else { return 0 };
    let mut context = ptr::null_mut();
    // SAFETY: it stores the handle there. It makes no context, and never waits.
    match unsafe { get(&mut context) } {
        CUresult::CUDA_SUCCESS => context.addr() as u64,
        _ => 0,
    }
}
