//! Launching kernels that are warm.

mod check;
mod config;
mod configure;
mod dynamic;
mod error;
mod prepared;

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, sys};

use crate::KernelInfo;
use crate::driver::{self, Driver, DriverError, Function};
use crate::table::Ready;

pub use config::{Dim3, LaunchConfig};
pub use configure::Configure;
pub use dynamic::{DynArg, launch_dyn};
pub use error::LaunchError;
pub use prepared::Prepared;

/// Launches a kernel whose arguments nobody checks, as the driver does: each is a pointer to a value of the
/// parameter's type, in order. The typed `launch` of each kernel and [`launch_dyn`] end here.
///
/// It takes no lock and no memory. What the kernel or the device does not allow is an error before the driver sees it.
///
/// # Safety
///
/// There are as many arguments as the kernel has parameters, each points to a value of the parameter's type,
/// the memory that these refer to stays until the kernel is done, and the kernel does with it what Rust expects.
#[inline]
pub unsafe fn launch_raw(
    kernel: &'static KernelInfo,
    stream: &CudaStream,
    config: &LaunchConfig,
    args: &mut [*mut c_void],
) -> Result<(), LaunchError> {
    let launch = Launch::new(kernel, stream, config)?;
    // SAFETY: the caller's promise.
    unsafe { launch.submit(args) }
}

/// A launch that was found to be possible.
pub struct Launch<'a> {
    kernel: &'static KernelInfo,
    function: Function,
    /// The id of the context that the function is of.
    id: u64,
    stream: &'a CudaStream,
    config: LaunchConfig,
}

impl<'a> Launch<'a> {
    /// Compares a launch with what the kernel can do in the stream's context.
    #[inline]
    pub fn new(
        kernel: &'static KernelInfo,
        stream: &'a CudaStream,
        config: &LaunchConfig,
    ) -> Result<Self, LaunchError> {
        let ready = ready(kernel, stream.context())?;
        check::check(kernel, config, &ready.limits)?;
        Ok(Launch { kernel, function: ready.function, id: ready.context.id, stream, config: *config })
    }

    /// Hands the kernel to the driver.
    ///
    /// # Safety
    ///
    /// As for [`launch_raw`].
    #[inline]
    pub unsafe fn submit(self, args: &mut [*mut c_void]) -> Result<(), LaunchError> {
        let Launch { kernel, function, id, stream, config } = self;
        let failed = |error| failed(kernel, stream.context(), Some(id), error);
        // The default stream is that of whatever context is current.
        driver::bind(stream.context()).map_err(failed)?;
        // SAFETY: the caller's promise.
        unsafe { submit(function, stream, &config, args) }.map_err(failed)
    }
}

impl KernelInfo {
    /// The driver's handle of the kernel in a context where it is warm, for what this library does not do.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let context = kernel_registry::context(0)?;
    /// let warm = kernel_registry::warm_all(&context)?;
    /// let function = kernel_registry::find("kernels::blas1::saxpy")?.cu_function(&context)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn cu_function(&'static self, context: &Arc<CudaContext>) -> Result<sys::CUfunction, LaunchError> {
        ready(self, context).map(|ready| ready.function.0)
    }
}

/// The kernel in a context where it is warm.
#[inline]
fn ready(kernel: &'static KernelInfo, context: &Arc<CudaContext>) -> Result<Ready, LaunchError> {
    match kernel.table().get(context) {
        Some(ready) if ready.limits.unavailable_below == 0 => Ok(ready),
        _ => find(kernel, context),
    }
}

/// The same for whatever is not usual: another context of the device, another `CudaContext` of the same
/// context, a kernel that is not warm.
#[cold]
fn find(kernel: &'static KernelInfo, context: &Arc<CudaContext>) -> Result<Ready, LaunchError> {
    let driver_error = |error| LaunchError::Driver { kernel, error };
    let id = driver::context_id(context).map_err(|error| {
        let warmed = kernel.table().get(context).map(|ready| ready.context.id);
        failed(kernel, context, warmed, error)
    })?;
    match kernel.table().find(context.ordinal(), id) {
        Some(Ready { limits, .. }) if limits.unavailable_below != 0 => {
            let arch = crate::warm::architecture(context).map_err(driver_error)?;
            Err(LaunchError::Unavailable { kernel, needs: limits.unavailable_below, arch })
        }
        Some(ready) => Ok(ready),
        None => crate::warm::late(kernel, context, id),
    }
}

/// Says what an error of the driver means where this library knows better: after a reset the handles are void, and after a
/// fork the driver is. `warmed` is the id of the context in which the kernel was warm.
#[cold]
fn failed(
    kernel: &'static KernelInfo,
    context: &CudaContext,
    warmed: Option<u64>,
    error: DriverError,
) -> LaunchError {
    if let Err(error) = Driver::get() {
        return LaunchError::DriverUnavailable { kernel, error };
    }
    if warmed.is_some() && warmed != driver::context_id(context).ok() {
        LaunchError::Reset { kernel }
    } else {
        LaunchError::Driver { kernel, error }
    }
}

/// # Safety
///
/// The stream's context is current, the function is one of it, and the arguments are what it takes.
#[inline]
unsafe fn submit(
    function: Function,
    stream: &CudaStream,
    config: &LaunchConfig,
    args: &mut [*mut c_void],
) -> Result<(), DriverError> {
    let mut attributes = [const { MaybeUninit::<sys::CUlaunchAttribute>::uninit() }; 2];
    let mut count = 0;
    if let Some([x, y, z]) = config.cluster {
        attributes[count].write(sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue {
                clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z },
            },
        });
        count += 1;
    }
    if config.cooperative {
        attributes[count].write(sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { cooperative: 1 },
        });
        count += 1;
    }
    let [grid_x, grid_y, grid_z] = config.grid;
    let [block_x, block_y, block_z] = config.block;
    let launch = sys::CUlaunchConfig {
        gridDimX: grid_x,
        gridDimY: grid_y,
        gridDimZ: grid_z,
        blockDimX: block_x,
        blockDimY: block_y,
        blockDimZ: block_z,
        sharedMemBytes: config.shared,
        hStream: stream.cu_stream(),
        attrs: attributes.as_mut_ptr().cast(),
        numAttrs: count as u32,
    };
    // SAFETY: the first `count` attributes are initialised; the rest is the caller's promise.
    driver::call("cuLaunchKernelEx", unsafe {
        sys::cuLaunchKernelEx(&launch, function.0, args.as_mut_ptr(), ptr::null_mut())
    })
}
