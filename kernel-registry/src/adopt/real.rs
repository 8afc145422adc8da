//! The driver's functions that `calls` stands in front of. The driver itself tells where they are.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudarc::driver::sys::{self, CUdeviceptr, CUfunction, CUmodule, CUresult};

/// A function of the driver, which is looked up at its first call.
pub(super) struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Real { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    fn find(&self) -> Result<*mut c_void, CUresult> {
        /// Since this version the functions are what they are.
        const VERSION: i32 = 12_000;
        let known = self.found.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(known);
        }
        let mut found = ptr::null_mut();
        // SAFETY: the name ends with a zero, and the status may be null.
        let result =
            unsafe { sys::cuGetProcAddress_v2(self.name.as_ptr(), &mut found, VERSION, 0, ptr::null_mut()) };
        match result {
            CUresult::CUDA_SUCCESS if found.is_null() => Err(CUresult::CUDA_ERROR_NOT_FOUND),
            CUresult::CUDA_SUCCESS => {
                self.found.store(found, Ordering::Release);
                Ok(found)
            }
            error => Err(error),
        }
    }
}

macro_rules! real {
    ($($(#[$doc:meta])* $name:ident = $symbol:ident($($argument:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// That of the driver's function.
        pub(super) unsafe fn $name($($argument: $type),*) -> CUresult {
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($symbol), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has one zero"),
            };
            static REAL: Real = Real::new(NAME);
            match REAL.find() {
                Ok(found) => {
                    // SAFETY: the function of this name has this type in every CUDA version since 4.0.
                    let function = unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> CUresult>(found)
                    };
                    // SAFETY: the caller's promise.
                    unsafe { function($($argument),*) }
                }
                Err(error) => error,
            }
        }
    )*};
}

real! {
    /// Loads a file.
    load = cuModuleLoad(module: *mut CUmodule, file: *const c_char);
    /// Loads an image.
    load_data = cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    /// Loads an image with options of the compiler.
    load_data_ex = cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        count: c_uint,
        options: *mut c_uint,
        values: *mut *mut c_void
    );
    /// Loads a fatbin.
    load_fatbin = cuModuleLoadFatBinary(module: *mut CUmodule, fatbin: *const c_void);
    /// Returns a kernel.
    get_function = cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    /// Returns a variable.
    get_global = cuModuleGetGlobal(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        module: CUmodule,
        name: *const c_char
    );
    /// Unloads a module.
    unload = cuModuleUnload(module: CUmodule);
}
