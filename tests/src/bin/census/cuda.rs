//! The calls of the driver that rows make, each with its result as a value.
//!
//! Nothing here owns anything: rows are short-lived processes, which free only what they free to see whether that
//! blocks. That handles are used as the driver wants them is for the rows to see to; a wrong one is an error of the
//! driver, and the end of one process at worst.

mod code;
mod memory;
mod streams;

use std::fmt;
use std::mem::MaybeUninit;

use kernel_registry::cudarc::driver::sys;

pub(crate) use code::*;
pub(crate) use memory::*;
pub(crate) use streams::*;

/// A call that failed, with the name that the driver has for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) call: &'static str,
    pub(crate) error: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.error, self.call)
    }
}

pub(crate) type Done<T = ()> = Result<T, Failed>;

/// A result as an error that names the call.
fn call(name: &'static str, result: sys::CUresult) -> Done {
    match result {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        error => Err(Failed { call: name, error: format!("{error:?}") }),
    }
}

/// What a call stores through its first parameter: a handle, an address or a number.
fn get<T: Copy>(name: &'static str, ask: impl FnOnce(*mut T) -> sys::CUresult) -> Done<T> {
    let mut value = MaybeUninit::zeroed();
    call(name, ask(value.as_mut_ptr()))?;
    // SAFETY: the driver stored it; and zero would be a value too, as these are pointers and integers.
    Ok(unsafe { value.assume_init() })
}

pub(crate) fn device_attribute(device: sys::CUdevice, which: sys::CUdevice_attribute) -> Done<u32> {
    // SAFETY: the device is one of the driver's.
    let got = get("cuDeviceGetAttribute", |value| unsafe { sys::cuDeviceGetAttribute(value, which, device) });
    got.map(i32::unsigned_abs)
}

/// Makes a context, and leaves the thread with the one that it had.
pub(crate) fn new_context(device: sys::CUdevice) -> Done {
    // SAFETY: there is a current context, and the device is one of the driver's.
    unsafe {
        let current = get("cuCtxGetCurrent", |context| sys::cuCtxGetCurrent(context))?;
        let _new: sys::CUcontext = get("cuCtxCreate", |context| sys::cuCtxCreate_v2(context, 0, device))?;
        call("cuCtxSetCurrent", sys::cuCtxSetCurrent(current))
    }
}

/// Waits for everything in the current context.
pub(crate) fn synchronize() -> Done {
    // SAFETY: it concerns the current context.
    call("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })
}

pub(crate) fn set_limit(which: sys::CUlimit, bytes: usize) -> Done {
    // SAFETY: it concerns the current context.
    call("cuCtxSetLimit", unsafe { sys::cuCtxSetLimit(which, bytes) })
}

/// Whether kernels are loaded when they are first asked for.
pub(crate) fn loads_lazily() -> Done<bool> {
    const LAZY: u32 = sys::CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING as u32;
    // SAFETY: the mode is a C enumeration of 32 bits.
    let mode: u32 = get("cuModuleGetLoadingMode", |mode: *mut u32| unsafe {
        sys::cuModuleGetLoadingMode(mode.cast())
    })?;
    Ok(mode == LAZY)
}
