//! Wrappers of the driver calls that warming needs, which return errors as values.

use std::ffi::{CStr, CString, c_uint, c_void};
use std::marker::PhantomData;
use std::{mem, ptr};

use cudarc::driver::{CudaContext, sys};

use super::own::own;
use super::{Driver, DriverCallError, bind, call};

pub(crate) use sys::{
    CUdevice_attribute_enum as DeviceAttribute, CUfunction_attribute_enum as FunctionAttribute,
    CUlimit_enum as Limit,
};

/// The handle of an image that is loaded in one context. This library never unloads images.
#[derive(Clone, Copy)]
pub(crate) struct Module(sys::CUmodule);

/// The handle of an image that is loaded in the process, for all contexts. This library never unloads images.
#[derive(Clone, Copy)]
pub(crate) struct Library(sys::CUlibrary);

/// The handle of a kernel in one context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Function(pub sys::CUfunction);

impl Function {
    pub(crate) const NONE: Function = Function(ptr::null_mut());
}

// SAFETY: the driver's handles may be used from any thread. A call with a handle whose context was destroyed returns an
// error.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// An image as the driver's functions take it: the first field holds PTX text, with a zero at its end, the second any other
/// image.
pub(crate) struct Code<'c>(Option<CString>, &'c [u8]);

impl<'c> Code<'c> {
    /// Joins parts of a PTX text. The parts contain no zero.
    pub(crate) fn text<'p>(parts: impl Iterator<Item = &'p [u8]>) -> Self {
        let text = parts.fold(Vec::new(), |mut text, part| {
            text.extend_from_slice(part);
            text
        });
        // A text that contains a zero becomes an empty text, and the driver refuses that.
        Code(Some(CString::new(text).unwrap_or_default()), &[])
    }

    pub(crate) fn new(image: &'c [u8], is_text: bool) -> Self {
        let text = is_text.then(|| image.split(|byte| *byte == 0).next().unwrap_or_default());
        // The text before the first zero contains no zero.
        Code(text.and_then(|text| CString::new(text).ok()), image)
    }

    fn as_ptr(&self) -> *const c_void {
        match &self.0 {
            Some(text) => text.as_ptr().cast(),
            None => self.1.as_ptr().cast(),
        }
    }
}

/// Why an image was not loaded, and the log of the driver's compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadError {
    pub(crate) error: DriverCallError,
    pub(crate) log: String,
}

impl From<DriverCallError> for LoadError {
    fn from(error: DriverCallError) -> Self {
        LoadError { error, log: String::new() }
    }
}

/// A context that is current in this thread. Until this is dropped, the thread's calls do not fail because some stream is being
/// captured, and do not become part of a graph.
pub struct Current<'c> {
    pub(crate) context: &'c CudaContext,
    driver: &'static Driver,
    _relaxed: Relaxed,
}

/// The relaxed capture mode of this thread: until this is dropped, the thread's calls do not fail because some stream is being
/// captured. No context needs to be current.
pub(crate) struct Relaxed {
    mode: sys::CUstreamCaptureMode,
    /// The capture mode and the current context belong to the thread.
    _thread: PhantomData<*const ()>,
}

impl<'c> Current<'c> {
    /// Makes a context current.
    pub fn new(context: &'c CudaContext, driver: &'static Driver) -> Result<Self, DriverCallError> {
        bind(context)?;
        Ok(Current { context, driver, _relaxed: Relaxed::new()? })
    }

    pub(crate) fn load_module(&self, code: &Code<'_>) -> Result<Module, LoadError> {
        let mut module = ptr::null_mut();
        // SAFETY: the image is complete, and PTX text ends with a zero.
        let load = |jit: &mut Jit| unsafe {
            let (options, values, count) = jit.arguments();
            sys::cuModuleLoadDataEx(&mut module, code.as_ptr(), count, options, values)
        };
        own(|| load_with_log("cuModuleLoadDataEx", None, load))?;
        Ok(Module(module))
    }

    /// Loads a library. If `threads` is given, and the driver supports it, that many threads compile the library's kernels.
    pub(crate) fn load_library(&self, code: &Code<'_>, threads: Option<usize>) -> Result<Library, LoadError> {
        let mut library = ptr::null_mut();
        let threads = threads.filter(|_| self.driver.version.can_compile_in_threads());
        // SAFETY: as for a module; there are no library options.
        let load = |jit: &mut Jit| unsafe {
            let (options, values, count) = jit.arguments();
            let none = (ptr::null_mut(), ptr::null_mut());
            sys::cuLibraryLoadData(&mut library, code.as_ptr(), options, values, count, none.0, none.1, 0)
        };
        load_with_log("cuLibraryLoadData", threads, load)?;
        Ok(Library(library))
    }

    pub(crate) fn function_of_module(
        &self,
        module: Module,
        name: &CStr,
    ) -> Result<Function, DriverCallError> {
        let mut function = ptr::null_mut();
        // SAFETY: modules stay loaded, and the name ends with a zero.
        let got = own(|| unsafe { sys::cuModuleGetFunction(&mut function, module.0, name.as_ptr()) });
        call("cuModuleGetFunction", got)?;
        Ok(Function(function))
    }

    /// Returns a kernel's handle in this context. `cuKernelGetFunction` loads the kernel; `cuLibraryGetKernel` does not.
    pub(crate) fn function_of_library(
        &self,
        library: Library,
        name: &CStr,
    ) -> Result<Function, DriverCallError> {
        let (mut kernel, mut function) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: libraries stay loaded, and the name ends with a zero.
        let got = unsafe { sys::cuLibraryGetKernel(&mut kernel, library.0, name.as_ptr()) };
        call("cuLibraryGetKernel", got)?;
        // SAFETY: the kernel is one of that library.
        call("cuKernelGetFunction", unsafe { sys::cuKernelGetFunction(&mut function, kernel) })?;
        Ok(Function(function))
    }

    /// Loads a function, if the driver has `cuFuncLoad`.
    pub(crate) fn load_function(&self, function: Function) -> Result<(), DriverCallError> {
        match self.driver.func_load {
            // SAFETY: the function is one of this context.
            Some(load) => call("cuFuncLoad", unsafe { load(function.0) }),
            None => Ok(()),
        }
    }

    /// Returns whether a function is loaded, or `None` if the driver lacks `cuFuncIsLoaded`.
    pub(crate) fn is_loaded(&self, function: Function) -> Result<Option<bool>, DriverCallError> {
        let Some(is_loaded) = self.driver.func_is_loaded else { return Ok(None) };
        let mut state = 0;
        // SAFETY: the function is one of this context.
        call("cuFuncIsLoaded", unsafe { is_loaded(&mut state, function.0) })?;
        const LOADED: u32 = 1;
        Ok(Some(state == LOADED))
    }

    /// Returns the module of a library in this context.
    ///
    /// # Safety
    ///
    /// The library is loaded.
    pub(crate) unsafe fn module_of(&self, library: sys::CUlibrary) -> Result<sys::CUmodule, DriverCallError> {
        let mut module = ptr::null_mut();
        // SAFETY: the caller's promise.
        call("cuLibraryGetModule", unsafe { sys::cuLibraryGetModule(&mut module, library) })?;
        Ok(module)
    }

    /// Returns the module that a function is in.
    #[cfg(all(feature = "adopt", target_os = "linux"))]
    pub(crate) fn module_of_function(&self, function: Function) -> Result<sys::CUmodule, DriverCallError> {
        let mut module = ptr::null_mut();
        // SAFETY: the function is one of this context.
        call("cuFuncGetModule", unsafe { sys::cuFuncGetModule(&mut module, function.0) })?;
        Ok(module)
    }

    /// Returns all kernels of a module.
    ///
    /// # Safety
    ///
    /// The module is loaded in this context.
    pub(crate) unsafe fn functions_of(
        &self,
        module: sys::CUmodule,
    ) -> Result<Vec<Function>, DriverCallError> {
        const NAME: &str = "cuModuleEnumerateFunctions";
        let (Some(count), Some(enumerate)) = (self.driver.function_count, self.driver.enumerate_functions)
        else {
            return Err(DriverCallError::new(NAME, sys::CUresult::CUDA_ERROR_NOT_SUPPORTED));
        };
        let mut length = 0;
        // SAFETY: the caller's promise.
        call("cuModuleGetFunctionCount", unsafe { count(&mut length, module) })?;
        let mut functions = vec![ptr::null_mut(); length as usize];
        // SAFETY: the vector has room for all functions of the module.
        call(NAME, unsafe { enumerate(functions.as_mut_ptr(), length, module) })?;
        Ok(functions.into_iter().map(Function).collect())
    }

    pub(crate) fn attribute(
        &self,
        function: Function,
        which: FunctionAttribute,
    ) -> Result<u32, DriverCallError> {
        let mut value = 0;
        // SAFETY: the function is one of this context.
        call("cuFuncGetAttribute", unsafe { sys::cuFuncGetAttribute(&mut value, which, function.0) })?;
        Ok(value.unsigned_abs())
    }

    /// Lets a function use this much dynamic shared memory.
    pub(crate) fn grant_shared(&self, function: Function, bytes: u32) -> Result<(), DriverCallError> {
        let which = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is one of this context.
        let set = unsafe { sys::cuFuncSetAttribute(function.0, which, bytes.cast_signed()) };
        call("cuFuncSetAttribute", set)
    }

    pub(crate) fn device_attribute(&self, which: DeviceAttribute) -> Result<u32, DriverCallError> {
        let value = self.context.attribute(which);
        value.map(i32::unsigned_abs).map_err(|error| DriverCallError::new("cuDeviceGetAttribute", error.0))
    }

    /// Returns a limit of the context, in bytes.
    pub(crate) fn limit(&self, which: Limit) -> Result<u64, DriverCallError> {
        let mut bytes = 0;
        // SAFETY: the call only reads a limit of the current context.
        call("cuCtxGetLimit", unsafe { sys::cuCtxGetLimit(&mut bytes, which) })?;
        Ok(bytes as u64)
    }

    /// Sets a limit of the context. The driver rounds the value up.
    pub(crate) fn set_limit(&self, which: Limit, bytes: u64) -> Result<(), DriverCallError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the call only sets a limit of the current context.
        call("cuCtxSetLimit", unsafe { sys::cuCtxSetLimit(which, bytes) })
    }

    /// Returns the stack limit, in bytes per thread.
    pub(crate) fn stack_limit(&self) -> Result<u64, DriverCallError> {
        self.limit(Limit::CU_LIMIT_STACK_SIZE)
    }

    pub(crate) fn raise_stack_limit(&self, bytes: u64) -> Result<(), DriverCallError> {
        self.set_limit(Limit::CU_LIMIT_STACK_SIZE, bytes)
    }

    /// Returns whether a function belongs to this context. Only a launch can find that out. The launch here has an empty grid,
    /// so it always fails: with an invalid handle or context if the function belongs to another context, and otherwise with an
    /// invalid value, because the grid is empty.
    ///
    /// # Safety
    ///
    /// The function is loaded in some context.
    pub(crate) unsafe fn owns(&self, function: Function) -> Result<bool, DriverCallError> {
        let (stream, none) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a grid of no blocks runs nothing and reads no arguments; the rest is the caller's promise.
        let launched = unsafe { sys::cuLaunchKernel(function.0, 0, 1, 1, 1, 1, 1, 0, stream, none, none) };
        match launched {
            sys::CUresult::CUDA_ERROR_INVALID_VALUE => Ok(true),
            sys::CUresult::CUDA_ERROR_INVALID_HANDLE | sys::CUresult::CUDA_ERROR_INVALID_CONTEXT => Ok(false),
            other => call("cuLaunchKernel", other).map(|()| true),
        }
    }

    /// Returns the bytes of free device memory.
    pub(crate) fn free_memory(&self) -> Result<u64, DriverCallError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the call only reads the memory figures of the current context's device.
        call("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok(free as u64)
    }

    /// Returns whether the driver loads kernels lazily: at their first use, and not with their image.
    pub(crate) fn loads_lazily(&self) -> Result<bool, DriverCallError> {
        let mut mode = sys::CUmoduleLoadingMode::CU_MODULE_EAGER_LOADING;
        // SAFETY: the driver is initialised, and it chooses the mode when it is initialised.
        call("cuModuleGetLoadingMode", unsafe { sys::cuModuleGetLoadingMode(&mut mode) })?;
        Ok(mode == sys::CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING)
    }
}

impl Relaxed {
    pub(crate) fn new() -> Result<Self, DriverCallError> {
        let mode = exchange(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
        Ok(Relaxed { mode, _thread: PhantomData })
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // The same call succeeded in `new`. A failure here cannot be reported.
        let _ = exchange(self.mode);
    }
}

/// Sets this thread's stream capture mode, and returns the former mode.
fn exchange(mut mode: sys::CUstreamCaptureMode) -> Result<sys::CUstreamCaptureMode, DriverCallError> {
    // SAFETY: the call reads a mode and stores the thread's former mode. Both are values of that enumeration.
    let exchanged = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
    call("cuThreadExchangeStreamCaptureMode", exchanged)?;
    Ok(mode)
}

/// The option `CU_JIT_SPLIT_COMPILE`: how many threads compile the kernels of an image. cudarc has this constant only in its
/// bindings for CUDA 13.
const SPLIT_COMPILE: c_uint = 34;

/// Options for the driver's compiler: the number of threads, and a buffer for the error log.
struct Jit {
    /// `CUjit_option`s.
    options: Vec<c_uint>,
    /// A value for each option, a number or a pointer.
    values: Vec<*mut c_void>,
    log: Vec<u8>,
}

impl Jit {
    fn new(threads: Option<usize>) -> Self {
        let mut jit = Jit { options: Vec::new(), values: Vec::new(), log: Vec::new() };
        if let Some(threads) = threads {
            jit.options.push(SPLIT_COMPILE);
            jit.values.push(ptr::without_provenance_mut(threads));
        }
        jit
    }

    fn with_log(threads: Option<usize>, size: usize) -> Self {
        use sys::CUjit_option::{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        let mut jit = Jit { log: vec![0; size], ..Jit::new(threads) };
        jit.options.extend([CU_JIT_ERROR_LOG_BUFFER as c_uint, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_uint]);
        jit.values.extend([jit.log.as_mut_ptr().cast(), ptr::without_provenance_mut(size)]);
        jit
    }

    /// Returns the options, their values and their number, as the driver's functions take them.
    fn arguments(&mut self) -> (*mut sys::CUjit_option, *mut *mut c_void, c_uint) {
        (self.options.as_mut_ptr().cast(), self.values.as_mut_ptr(), self.options.len() as c_uint)
    }
}

/// Calls `load` without a log, and if that fails, again with a log. The driver may compile a loaded library later for another
/// device, and must not write to a log that was freed.
fn load_with_log(
    name: &'static str,
    threads: Option<usize>,
    mut load: impl FnMut(&mut Jit) -> sys::CUresult,
) -> Result<(), LoadError> {
    let Err(error) = call(name, load(&mut Jit::new(threads))) else { return Ok(()) };
    let mut jit = Jit::with_log(threads, 8 * 1024);
    match call(name, load(&mut jit)) {
        // The second try can succeed, for example because there is more free memory. Then the driver may write to the log
        // later, so it is never freed.
        Ok(()) => {
            mem::forget(jit);
            Ok(())
        }
        Err(_) => {
            let text = jit.log.split(|byte| *byte == 0).next().unwrap_or_default();
            Err(LoadError { error, log: String::from_utf8_lossy(text).trim().to_owned() })
        }
    }
}
