//! Hooks of calls that create and end contexts.

use std::ffi::{c_int, c_uint};
use std::sync::Once;

use cudarc::driver::sys::{CUcontext, CUdevice, CUresult};
use kernel_registry_cuda::rules;

use super::guard;
use crate::watch::events::timed;
use crate::watch::hang::busy;
use crate::watch::known::{contexts, devices, handles, owners, stream_counts};
use crate::watch::loader::real::driver_function;
use crate::watch::preload;
use crate::watch::process::fork;
use crate::watch::record::call::{Call, with_handle};
use crate::watch::record::slots::during;
use crate::watch::section::{self, ActiveSection};

/// Makes a call that ends a context, with all that is loaded in the context.
pub(super) fn end_context(call: Call, context: CUcontext, real: impl FnOnce() -> CUresult) -> CUresult {
    let context = context.addr() as u64;
    guard::wait(call, &rules::CONTEXT, section::find_in_context(context), || {
        forget_context(context);
        busy::without_questions(real)
    })
}

fn forget_context(context: u64) {
    // Handle 0 is no context, and the driver refuses to end it.
    if context == 0 {
        return;
    }
    handles::forget_context(context, &owners::forget_context(context));
    preload::forget_context(context);
    stream_counts::forget_context(context);
    section::forget_context(context);
}

/// Makes a call that releases a device's primary context. The last release ends the context.
pub(super) fn release_primary(call: Call, device: CUdevice, real: impl FnOnce() -> CUresult) -> CUresult {
    let is_last = section::any() && contexts::is_held_once(device);
    let section = if is_last { section::find_on_device(device) } else { None };
    let result = may_end(call, device, section, real);
    if result == CUresult::CUDA_SUCCESS {
        contexts::remove_hold(device);
    }
    result
}

/// Makes a call that ends the primary context of a device.
pub(super) fn reset_primary(call: Call, device: CUdevice, real: impl FnOnce() -> CUresult) -> CUresult {
    may_end(call, device, section::find_on_device(device), real)
}

fn may_end(
    call: Call,
    device: CUdevice,
    section: Option<ActiveSection>,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    driver_function!(static GET_STATE = cuDevicePrimaryCtxGetState(CUdevice, *mut c_uint, *mut c_int));
    let result = guard::wait(call, &rules::CONTEXT, section, || busy::without_questions(real));
    // The context counts as active unless the driver says otherwise.
    let (mut flags, mut is_active) = (0, 1);
    if let Some(get_state) = GET_STATE.get() {
        // SAFETY: the call stores two numbers.
        unsafe { get_state(device, &mut flags, &mut is_active) };
    }
    if is_active == 0
        && let Some(context) = contexts::find_primary(device)
    {
        forget_context(context);
    }
    result
}

/// Makes a call that retains the primary context of a device.
pub(super) fn retain_primary(
    call: Call,
    out: *mut CUcontext,
    device: CUdevice,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    with_handle(make_context(call, out, device, real), out, |context| contexts::add_hold(context, device))
}

/// Makes a call that creates or retains a context.
pub(super) fn make_context(
    call: Call,
    out: *mut CUcontext,
    device: CUdevice,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    static ONCE: Once = Once::new();
    let result = timed(call, real);
    // `busy::end` is registered after the driver's own exit handlers, so it is called before them.
    // SAFETY: `busy::end` is called without arguments, and stays where it is.
    fork::call_once(&ONCE, || _ = unsafe { libc::atexit(busy::end) });
    with_handle(result, out, |context| {
        contexts::add(context);
        devices::record_use(device);
        if preload::is_due_with_contexts() {
            // The call still counts as in progress, so that a hang of the preload is explained.
            during(call, || preload::in_context(context));
        }
    })
}
