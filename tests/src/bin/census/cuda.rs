//! Wraps the driver calls of the rows in functions that return a `Result`.
//!
//! Nothing is freed automatically: each row is a short process, and only frees memory to see whether the call
//! blocks. Rows must use handles correctly. A wrong handle is a driver error, or at worst ends one process.

mod code;
mod memory;
mod streams;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_uint, c_void};
use std::mem::{MaybeUninit, transmute_copy};
use std::ptr;

use kernel_registry::cudarc::driver::sys;

pub(crate) use code::*;
pub(crate) use memory::*;
pub(crate) use streams::*;

/// The text of a failure, with the driver's name for the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) String);

pub(crate) type Done<T = ()> = Result<T, Failed>;

/// A driver handle that may be sent to another thread.
#[derive(Clone, Copy)]
pub(crate) struct Sent<T>(*mut T);

// SAFETY: the driver accepts its handles in every thread, and nothing here dereferences them.
unsafe impl<T> Send for Sent<T> {}

impl<T> Sent<T> {
    pub(crate) fn new(handle: *mut T) -> Self {
        Sent(handle)
    }

    pub(crate) fn get(self) -> *mut T {
        self.0
    }
}

thread_local! {
    static CALLS: RefCell<BTreeSet<&'static str>> = RefCell::default();
}

/// Returns the functions that this thread has called since the last `take_calls`, without the suffixes of
/// their versions.
pub(crate) fn take_calls() -> Vec<String> {
    let calls = CALLS.take();
    let bases: BTreeSet<_> = calls.iter().map(|name| base(name)).collect();
    bases.into_iter().map(str::to_owned).collect()
}

/// Returns a function's name without the suffix of its version: `cuMemFree` for `cuMemFree_v2`.
pub(crate) fn base(function: &str) -> &str {
    function.split_once('_').map_or(function, |(base, _)| base)
}

/// Turns a result into an error that names the call.
pub(crate) fn call(name: &'static str, result: sys::CUresult) -> Done {
    CALLS.with_borrow_mut(|calls| calls.insert(name));
    match result {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        error => Err(Failed(format!("{error:?} of {name}"))),
    }
}

/// Returns the handle, address or number that a call stores through its first parameter.
fn get<T: Copy>(name: &'static str, ask: impl FnOnce(*mut T) -> sys::CUresult) -> Done<T> {
    let mut value = MaybeUninit::zeroed();
    call(name, ask(value.as_mut_ptr()))?;
    // SAFETY: the driver stored the value. Zero would be valid too, because callers ask for pointers and
    // integers only.
    Ok(unsafe { value.assume_init() })
}

/// A handle of the driver, of any kind.
pub(crate) type Handle = *mut c_void;

/// No handle, or no data.
pub(crate) const NULL: Handle = ptr::null_mut();

/// Finds a function by its symbol, which includes its version.
///
/// # Safety
///
/// `F` is the function pointer type of this symbol.
pub(crate) unsafe fn find<F: Copy>(symbol: &'static str) -> Done<F> {
    // SAFETY: the driver's library has been opened, and the caller knows the function's type.
    let found = unsafe { sys::culib().get::<F>(symbol.as_bytes()) };
    found.map(|function| *function).map_err(|_| Failed(format!("the driver has no {symbol}")))
}

/// Calls a function of the driver by its symbol. The types of the arguments are taken as the types of the
/// parameters. This also works for functions that this version of cudarc lacks; if the driver lacks it, the
/// result is an error.
macro_rules! driver {
    ($symbol:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments have the types that NVIDIA's header gives for this symbol, and pointers are
        // valid.
        let function = unsafe {
            $crate::cuda::find::<unsafe extern "C" fn($($crate::cuda::driver!(@ $argument)),*) -> _>(stringify!($symbol))
        };
        // SAFETY: as above. A handle of the wrong kind is an error, or at worst ends the process of one row.
        function.and_then(|function| $crate::cuda::call(stringify!($symbol), unsafe { function($($argument),*) }))
    }};
    (@ $argument:expr) => { _ };
}

/// Calls a function of the driver that stores a handle through its first parameter, and returns the handle.
macro_rules! create {
    ($symbol:ident($($argument:expr),* $(,)?)) => {{
        let mut handle: $crate::cuda::Handle = std::ptr::null_mut();
        $crate::cuda::driver!($symbol(&raw mut handle, $($argument),*)).map(|()| handle)
    }};
}

/// Returns a structure of the driver whose bytes are all zero.
pub(crate) fn zero<T: Copy>() -> T {
    // SAFETY: the driver's structures are plain data. `zeroed` panics for a structure with a field that
    // cannot be zero.
    unsafe { std::mem::zeroed() }
}

/// Returns a structure that describes a copy between two buffers on the device. All other fields are zero.
/// The kinds of memory are written first, because zero isn't one.
macro_rules! device_copy {
    ($type:ident) => {{
        let mut copy = std::mem::MaybeUninit::<sys::$type>::zeroed();
        let place = copy.as_mut_ptr();
        let device = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
        // SAFETY: the structures are plain data, and zero is a value of all other fields.
        unsafe {
            (&raw mut (*place).srcMemoryType).write(device);
            (&raw mut (*place).dstMemoryType).write(device);
            copy.assume_init()
        }
    }};
}

pub(crate) use {create, device_copy, driver};

/// Joins the errors of several calls into one error.
pub(crate) fn join_errors<const N: usize>(calls: [Done; N]) -> Done {
    let errors: Vec<_> = calls.into_iter().filter_map(Result::err).map(|Failed(error)| error).collect();
    if errors.is_empty() { Ok(()) } else { Err(Failed(errors.join("; "))) }
}

/// Returns the newest version of CUDA that the driver supports: 12040 for 12.4.
pub(crate) fn version() -> Done<i32> {
    // SAFETY: this function may be called at any time.
    get("cuDriverGetVersion", |version| unsafe { sys::cuDriverGetVersion(version) })
}

pub(crate) fn device_attribute(device: sys::CUdevice, which: sys::CUdevice_attribute) -> Done<u32> {
    // SAFETY: the device is one of the driver's.
    let got = get("cuDeviceGetAttribute", |value| unsafe { sys::cuDeviceGetAttribute(value, which, device) });
    got.map(i32::unsigned_abs)
}

/// Finds a function that cudarc lacks, in the driver or in the audit in front of it.
///
/// # Safety
///
/// `F` is the function pointer type of this name in this CUDA version.
pub(crate) unsafe fn lookup<F: Copy>(name: &'static CStr, cuda_version: i32) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the name ends with a zero byte, and the status may be null.
    let address: *mut c_void = get("cuGetProcAddress", |address| unsafe {
        sys::cuGetProcAddress_v2(name.as_ptr(), address, cuda_version, 0, ptr::null_mut())
    })
    .ok()?;
    // SAFETY: the driver returned the function, the caller knows its type, and both are one pointer wide.
    (!address.is_null()).then(|| unsafe { transmute_copy(&address) })
}

/// Creates a context, and then restores the thread's current context.
pub(crate) fn new_context(device: sys::CUdevice) -> Done<sys::CUcontext> {
    type Create = unsafe extern "C" fn(*mut sys::CUcontext, c_uint, sys::CUdevice) -> sys::CUresult;
    // SAFETY: CUDA 4.0 to 12.4 have a function of this type under this name, and later drivers keep it for
    // this version.
    let create = unsafe { lookup::<Create>(c"cuCtxCreate", 4_000) };
    let create = create.ok_or(Failed("CUDA_ERROR_NOT_FOUND of cuCtxCreate".into()))?;
    let current = current_context()?;
    // SAFETY: the device is one of the driver's.
    let new = get("cuCtxCreate", |context| unsafe { create(context, 0, device) })?;
    set_context(current)?;
    Ok(new)
}

pub(crate) fn destroy_context(context: sys::CUcontext) -> Done {
    // SAFETY: nothing of the context is used afterwards.
    call("cuCtxDestroy", unsafe { sys::cuCtxDestroy_v2(context) })
}

pub(crate) fn current_context() -> Done<sys::CUcontext> {
    // SAFETY: this function may be called at any time.
    get("cuCtxGetCurrent", |context| unsafe { sys::cuCtxGetCurrent(context) })
}

pub(crate) fn set_context(context: sys::CUcontext) -> Done {
    // SAFETY: the context exists.
    call("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context) })
}

pub(crate) fn context_id() -> Done<u64> {
    // SAFETY: null means the current context.
    get("cuCtxGetId", |id| unsafe { sys::cuCtxGetId(ptr::null_mut(), id) })
}

/// Retains and releases the device's primary context.
pub(crate) fn retain_and_release(device: sys::CUdevice) -> Done {
    // SAFETY: the device is one of the driver's, and the context that is released was retained.
    unsafe {
        let _primary: sys::CUcontext =
            get("cuDevicePrimaryCtxRetain", |context| sys::cuDevicePrimaryCtxRetain(context, device))?;
        call("cuDevicePrimaryCtxRelease", sys::cuDevicePrimaryCtxRelease_v2(device))
    }
}

/// Waits for all work in the current context.
pub(crate) fn synchronize() -> Done {
    // SAFETY: the function has no arguments.
    call("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })
}

pub(crate) fn set_limit(which: sys::CUlimit, bytes: usize) -> Done {
    // SAFETY: the function only changes the current context.
    call("cuCtxSetLimit", unsafe { sys::cuCtxSetLimit(which, bytes) })
}

pub(crate) fn limit(which: sys::CUlimit) -> Done<usize> {
    // SAFETY: the function only reads the current context.
    get("cuCtxGetLimit", |bytes| unsafe { sys::cuCtxGetLimit(bytes, which) })
}

/// Returns whether the driver loads kernels on first use.
pub(crate) fn loads_lazily() -> Done<bool> {
    const LAZY: u32 = sys::CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING as u32;
    // SAFETY: the mode is a C enumeration of 32 bits.
    let mode: u32 =
        get("cuModuleGetLoadingMode", |mode: *mut u32| unsafe { sys::cuModuleGetLoadingMode(mode.cast()) })?;
    Ok(mode == LAZY)
}
