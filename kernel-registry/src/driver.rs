//! Finds the CUDA driver, checks its version, and wraps the calls that this library makes.
//!
//! cudarc panics if the driver or one of the driver's functions is missing. So every use of CUDA begins with [`Driver::get`],
//! which returns an error instead. Functions newer than CUDA 12.0 are `Option`s here.

mod audit;
mod call;
mod context;
mod error;
mod launch;
mod own;
mod stream;
mod version;

use std::ffi::{CStr, c_void};
use std::process;
use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaContext, sys};

pub(crate) use call::*;
pub use call::{Current, Function};
pub(crate) use context::architecture;
pub use context::{ContextId, Pushed, bind};
pub(crate) use error::OfCudarc;
pub use error::call;
pub use error::{DriverCallError, DriverUnavailable};
pub(crate) use launch::launch;
#[cfg(all(feature = "adopt", target_os = "linux"))]
pub(crate) use own::{is_own, own};
pub(crate) use stream::Stream;
pub use version::CudaVersion;
use version::SINCE;

/// The oldest driver that has `cuLibraryLoadData`, `cuCtxGetId` and `cuLaunchKernelEx`.
const OLDEST: CudaVersion = CudaVersion::new(12, 0);

/// An initialised driver of CUDA 12.0 or newer, with the functions that only newer drivers have.
pub struct Driver {
    pub(crate) version: CudaVersion,
    /// The id of the process that initialised the driver.
    process: u32,
    /// `cuFuncLoad`, since 12.4.
    pub(crate) func_load: Option<FuncLoad>,
    /// `cuFuncIsLoaded`, since 12.4.
    pub(crate) func_is_loaded: Option<FuncIsLoaded>,
    /// `cuModuleGetFunctionCount`, since 12.4.
    pub(crate) function_count: Option<FunctionCount>,
    /// `cuModuleEnumerateFunctions`, since 12.4.
    pub(crate) enumerate_functions: Option<EnumerateFunctions>,
}

type FuncLoad = unsafe extern "C" fn(sys::CUfunction) -> sys::CUresult;
type FunctionCount = unsafe extern "C" fn(*mut u32, sys::CUmodule) -> sys::CUresult;
type EnumerateFunctions = unsafe extern "C" fn(*mut sys::CUfunction, u32, sys::CUmodule) -> sys::CUresult;
type FuncIsLoaded = unsafe extern "C" fn(*mut u32, sys::CUfunction) -> sys::CUresult;

impl Driver {
    /// Returns the driver, and initialises it at the first call. If there is no driver, the next call looks for it again.
    pub fn get() -> Result<&'static Driver, DriverUnavailable> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        let driver = match DRIVER.get() {
            Some(driver) => driver,
            None => {
                let driver = Driver::find()?;
                driver.tell_audit();
                DRIVER.get_or_init(|| driver)
            }
        };
        if driver.process == process::id() { Ok(driver) } else { Err(DriverUnavailable::Forked) }
    }

    fn find() -> Result<Driver, DriverUnavailable> {
        if !kernel_registry_cudarc::has_driver() {
            return Err(DriverUnavailable::Missing);
        }
        let mut version = 0;
        // SAFETY: every driver has this function, and it may be called before `cuInit`.
        call("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
        let version = CudaVersion::from_number(version);
        if version < OLDEST {
            return Err(DriverUnavailable::TooOld { version, oldest: OLDEST });
        }
        // SAFETY: this may be called at any time and any number of times.
        call("cuInit", unsafe { sys::cuInit(0) }).map_err(|error| {
            // `cuInit` returns this only in a child that was forked after `cuInit`.
            let forked = error.is(sys::CUresult::CUDA_ERROR_NOT_INITIALIZED);
            if forked { DriverUnavailable::Forked } else { DriverUnavailable::Failed(error) }
        })?;
        // Since 12.4.
        let (load, is_loaded) = (c"cuFuncLoad", c"cuFuncIsLoaded");
        let (count, enumerate) = (c"cuModuleGetFunctionCount", c"cuModuleEnumerateFunctions");
        Ok(Driver {
            version,
            process: process::id(),
            // SAFETY: the function of this name has had this type in every CUDA version.
            func_load: unsafe { lookup::<FuncLoad>(load, SINCE, version) }?,
            // SAFETY: as above; the state is a C enumeration of 32 bits.
            func_is_loaded: unsafe { lookup::<FuncIsLoaded>(is_loaded, SINCE, version) }?,
            // SAFETY: as above.
            function_count: unsafe { lookup::<FunctionCount>(count, SINCE, version) }?,
            // SAFETY: as above.
            enumerate_functions: unsafe { lookup::<EnumerateFunctions>(enumerate, SINCE, version) }?,
        })
    }
}

/// Looks up a function of the driver, as of the CUDA version `since`. Returns `None` if the driver lacks the function, and an
/// error if the lookup failed.
///
/// # Safety
///
/// `F` is the type of the function pointer in that version.
pub unsafe fn lookup<F: Copy>(
    name: &CStr,
    since: CudaVersion,
    driver: CudaVersion,
) -> Result<Option<F>, DriverCallError> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // A driver refuses to look up functions of a CUDA version newer than its own.
    if driver < since {
        return Ok(None);
    }
    let mut address: *mut c_void = std::ptr::null_mut();
    // SAFETY: a driver that was found to be 12.0 or newer has this function; the name ends with a
    // zero, and the status may be null.
    let found = unsafe {
        sys::cuGetProcAddress_v2(name.as_ptr(), &mut address, since.number(), 0, std::ptr::null_mut())
    };
    match call("cuGetProcAddress", found) {
        Ok(()) if !address.is_null() => {}
        Err(error) if !error.is(sys::CUresult::CUDA_ERROR_NOT_FOUND) => return Err(error),
        _ => return Ok(None),
    }
    // SAFETY: the driver returned the function, the caller knows its type, and both are one pointer wide.
    Ok(Some(unsafe { std::mem::transmute_copy(&address) }))
}

/// Returns the primary context of a device, as cudarc's `CudaContext::new` does. Without a driver this function returns an
/// error, while `CudaContext::new` panics.
///
/// # Errors
///
/// The driver is missing, is too old or does not work, or the process was forked.
///
/// ```no_run
/// let context = kernel_registry::context(0)?;
/// let stream = context.new_stream()?;
/// # Ok::<(), kernel_registry::MainError>(())
/// ```
pub fn context(ordinal: usize) -> Result<Arc<CudaContext>, DriverUnavailable> {
    Driver::get()?;
    // cudarc would use only the lower 32 bits of the number.
    if i32::try_from(ordinal).is_err() {
        return Err(DriverCallError::new("cuDeviceGet", sys::CUresult::CUDA_ERROR_INVALID_DEVICE).into());
    }
    CudaContext::new(ordinal).map_err(|error| DriverCallError::new("CudaContext::new", error.0).into())
}

/// Returns the primary contexts of all devices, in the driver's order.
///
/// # Errors
///
/// The same errors as [`context`].
///
/// ```no_run
/// for context in kernel_registry::contexts()? {
///     kernel_registry::warm_all(&context)?;
/// }
/// # Ok::<(), kernel_registry::MainError>(())
/// ```
pub fn contexts() -> Result<Vec<Arc<CudaContext>>, DriverUnavailable> {
    Driver::get()?;
    let count =
        CudaContext::device_count().map_err(|error| DriverCallError::new("cuDeviceGetCount", error.0))?;
    (0..count.unsigned_abs() as usize).map(context).collect()
}
