//! Calls the CUDA runtime library that a kernel was registered with. A program can contain several runtime libraries.

use std::ffi::{CStr, c_char, c_void};
use std::mem;

use cudarc::driver::sys::{CUfunction, CUresult};

use crate::driver::{DriverCallError, Function};

/// The name of the function that loads a kernel and returns its handle.
pub(crate) const GET_FUNCTION: &str = "cudaGetFuncBySymbol";

/// The addresses of a runtime library's functions, in the order of the shim's assembly. 0 means that no library defines the function.
#[repr(C)]
pub(crate) struct Addresses {
    /// `__real___cudaRegisterFunction`: the original function, if the linker was told to wrap it.
    pub(super) real_register: usize,
    /// `__real___cudaRegisterFatBinary`: the original function, if the linker was told to wrap it.
    pub(super) real_register_fatbin: usize,
    /// `__cudaRegisterFunction`.
    pub(super) register: usize,
    /// `__cudaRegisterFatBinary`.
    pub(super) register_fatbin: usize,
    /// `cudaGetFuncBySymbol`.
    get_function: usize,
    /// `cudaGetErrorName`.
    error_name: usize,
    /// `cudaGetErrorString`.
    error_text: usize,
}

impl Addresses {
    /// Returns the handle of a kernel in the current context, by the address of the kernel's host function. For that, the runtime
    /// library loads the kernel and its fatbin.
    pub(super) fn function(&self, host: usize) -> Result<Function, DriverCallError> {
        if self.get_function == 0 {
            return Err(DriverCallError::new(GET_FUNCTION, CUresult::CUDA_ERROR_NOT_SUPPORTED));
        }
        let mut function: CUfunction = std::ptr::null_mut();
        // SAFETY: the function has had this type since CUDA 11.0. It only looks up its second argument, so any address is allowed.
        let code = unsafe {
            type Get = unsafe extern "C" fn(*mut CUfunction, *const c_void) -> u32;
            let get: Get = mem::transmute(self.get_function);
            get(&mut function, std::ptr::without_provenance(host))
        };
        if code == 0 { Ok(Function(function)) } else { Err(self.error(code)) }
    }

    fn error(&self, code: u32) -> DriverCallError {
        let text = |address: usize| {
            if address == 0 {
                return "unknown";
            }
            // SAFETY: both functions have this type, accept any code, and return static text. The runtime library stays loaded at
            // least as long as the program or shared library that contains this table.
            let text = unsafe {
                type GetText = unsafe extern "C" fn(u32) -> *const c_char;
                let get: GetText = mem::transmute(address);
                CStr::from_ptr(get(code))
            };
            text.to_str().unwrap_or("unknown")
        };
        DriverCallError::from_runtime(GET_FUNCTION, code, text(self.error_name), text(self.error_text))
    }
}
