//! The driver's functions for modules, to which the linker binds the calls of the rest of the program.
//!
//! Each function forwards to the driver unless the module is adopted, and never fails where the driver would not.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::{self, CUdeviceptr, CUfunction, CUmodule, CUresult};

use super::{bytes, late, probe, real};
use crate::contexts::adopted::{self, Found};
use crate::driver::{ContextId, is_own};

/// Loads an image for other code, or answers the load with an adopted module.
///
/// # Safety
///
/// The arguments are those of the driver's function.
unsafe fn load(out: *mut CUmodule, image: *const c_void, real: impl FnOnce() -> CUresult) -> CUresult {
    if !is_own() && !out.is_null() {
        // SAFETY: the caller's promise.
        let images = unsafe { bytes::find(image) };
        let adopted = ContextId::current().filter(|_| !images.is_empty());
        if let Some(module) = adopted.and_then(|id| adopted::load(id, &images)) {
            // SAFETY: the caller has room for a handle there.
            unsafe { out.write(module) };
            return CUresult::CUDA_SUCCESS;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { new_handle(out, real()) }
}

/// Forgets an adopted module if the driver has given its handle to the module that was just loaded.
///
/// # Safety
///
/// If the load succeeded, `out` is null or points to the handle.
unsafe fn new_handle(out: *mut CUmodule, result: CUresult) -> CUresult {
    if result == CUresult::CUDA_SUCCESS && !out.is_null() {
        // SAFETY: the caller's promise.
        adopted::forget_handle(unsafe { out.read() });
    }
    result
}

/// # Safety
///
/// As for the driver's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(out: *mut CUmodule, image: *const c_void) -> CUresult {
    if probe::take() {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    // SAFETY: the caller's promise.
    unsafe { load(out, image, || real::load_data(out, image)) }
}

/// # Safety
///
/// As for the driver's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadFatBinary(out: *mut CUmodule, fatbin: *const c_void) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { load(out, fatbin, || real::load_fatbin(out, fatbin)) }
}

/// # Safety
///
/// As for the driver's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoad(out: *mut CUmodule, file: *const c_char) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { new_handle(out, real::load(out, file)) }
}

/// # Safety
///
/// As for the driver's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    out: *mut CUmodule,
    image: *const c_void,
    count: c_uint,
    options: *mut c_uint,
    values: *mut *mut c_void,
) -> CUresult {
    let real = || {
        // SAFETY: the caller's promise.
        unsafe { real::load_data_ex(out, image, count, options, values) }
    };
    // SAFETY: the caller's promise.
    unsafe {
        let Some(logs) = Logs::new(count, options, values) else { return new_handle(out, real()) };
        let mut is_adopted = true;
        let result = load(out, image, || {
            is_adopted = false;
            real()
        });
        if is_adopted {
            logs.clear();
        }
        result
    }
}

/// The options of a load that has options for logs only.
struct Logs {
    count: usize,
    options: *const c_uint,
    values: *mut *mut c_void,
}

impl Logs {
    const SIZES: [c_uint; 2] = [
        sys::CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES as c_uint,
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_uint,
    ];
    const OTHERS: [c_uint; 3] = [
        sys::CUjit_option::CU_JIT_INFO_LOG_BUFFER as c_uint,
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER as c_uint,
        sys::CUjit_option::CU_JIT_LOG_VERBOSE as c_uint,
    ];

    /// Returns `None` if there are other options.
    ///
    /// # Safety
    ///
    /// `options` and `values` point to `count` elements, or are null.
    unsafe fn new(count: c_uint, options: *const c_uint, values: *mut *mut c_void) -> Option<Self> {
        let logs = Logs { count: count as usize, options, values };
        if count > 0 && (options.is_null() || values.is_null()) {
            return None;
        }
        // SAFETY: the caller's promise.
        let is_log = |option| Self::SIZES.contains(&option) || Self::OTHERS.contains(&option);
        // SAFETY: the caller's promise.
        (0..logs.count).all(|index| is_log(unsafe { options.add(index).read() })).then_some(logs)
    }

    /// Sets the logs' sizes to 0, because an adopted module writes nothing to them.
    ///
    /// # Safety
    ///
    /// The options and values that `new` got are still valid.
    unsafe fn clear(&self) {
        for index in 0..self.count {
            // SAFETY: the caller's promise.
            unsafe {
                if Self::SIZES.contains(&self.options.add(index).read()) {
                    self.values.add(index).write(ptr::null_mut());
                }
            }
        }
    }
}

/// # Safety
///
/// As for the driver's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    out: *mut CUfunction,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    if !is_own() && !out.is_null() && !name.is_null() {
        // SAFETY: the name ends with a zero.
        let symbol = unsafe { CStr::from_ptr(name) };
        let function = match adopted::function(module, symbol.to_bytes()) {
            Some(Found::Warm(function)) => Some(function),
            Some(Found::Not) => late::function(module, symbol),
            None => None,
        };
        if let Some(function) = function {
            // SAFETY: the caller has room for a handle there.
            unsafe { out.write(function) };
            return CUresult::CUDA_SUCCESS;
        }
    }
    // SAFETY: the caller's promise; the handle of an adopted module is one of the driver's.
    unsafe { real::get_function(out, module, name) }
}

/// # Safety
///
/// As for the driver's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetGlobal_v2(
    address: *mut CUdeviceptr,
    bytes: *mut usize,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    // SAFETY: the caller's promise.
    let get = |module| unsafe { real::get_global(address, bytes, module, name) };
    let result = get(module);
    if result != CUresult::CUDA_ERROR_NOT_FOUND || is_own() {
        return result;
    }
    late::others(module).map(get).find(|other| *other != CUresult::CUDA_ERROR_NOT_FOUND).unwrap_or(result)
}

/// # Safety
///
/// As for the driver's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: CUmodule) -> CUresult {
    match adopted::unload(module) {
        Some(true) => CUresult::CUDA_SUCCESS,
        Some(false) => CUresult::CUDA_ERROR_INVALID_HANDLE,
        // SAFETY: the caller's promise.
        None => unsafe { real::unload(module) },
    }
}
