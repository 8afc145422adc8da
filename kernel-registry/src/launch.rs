//! Launching: finds the handle of a warm kernel, checks the configuration, and calls the driver. It takes no lock, allocates nothing, hashes
//! nothing and reads no record.

mod check;
mod configure;
mod dynamic;
mod error;
mod parameter;
mod prepared;

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, sys};

use crate::driver::{self, ContextId, Driver, DriverCallError, Function};
use crate::late::{self, NotLoaded};
use crate::sections;
use crate::table::Ready;
use crate::{KernelInfo, LaunchConfig};

pub use check::check;
pub use configure::Configure;
pub use configure::Sealed;
pub use dynamic::{DynArg, launch_dyn};
pub use error::{LaunchError, LaunchLimit};
pub use prepared::{Prepared, Untyped};

/// A checked launch.
pub struct Launch<'a> {
    kernel: &'static KernelInfo,
    function: Function,
    /// The id of the function's context.
    id: ContextId,
    stream: &'a CudaStream,
    config: LaunchConfig,
    /// Whether an argument is memory of another context, whose freeing does not wait for this kernel.
    is_foreign: Cell<bool>,
}

impl<'a> Launch<'a> {
    #[inline]
    fn on(
        kernel: &'static KernelInfo,
        (function, id): (Function, ContextId),
        stream: &'a CudaStream,
        config: &LaunchConfig,
    ) -> Self {
        Launch { kernel, function, id, stream, config: *config, is_foreign: Cell::new(false) }
    }

    /// Checks a launch against the kernel's limits in the stream's context.
    #[inline]
    pub fn new(
        kernel: &'static KernelInfo,
        stream: &'a CudaStream,
        config: &LaunchConfig,
    ) -> Result<Self, LaunchError> {
        let ready = ready(kernel, stream.context())?;
        check(kernel, config, &ready.limits)?;
        Ok(Launch::on(kernel, (ready.function, ready.context.id), stream, config))
    }

    #[inline]
    pub(crate) fn stream(&self) -> &'a CudaStream {
        self.stream
    }

    /// Notes that an argument is memory of this context, if that is not null.
    #[inline]
    pub(crate) fn uses(&self, owner: sys::CUcontext) {
        if !owner.is_null() && owner != self.stream.context().cu_ctx() {
            self.is_foreign.set(true);
        }
    }

    /// Hands the kernel to the driver.
    ///
    /// # Safety
    ///
    /// The [contract of every launch](crate#the-contract-of-a-launch).
    #[inline]
    pub unsafe fn submit(self, args: &mut [*mut c_void]) -> Result<(), LaunchError> {
        let Launch { kernel, function, id, stream, config, is_foreign } = self;
        if is_foreign.get() {
            return Err(LaunchError::OtherMemory { kernel });
        }
        sections::check_stream(stream).map_err(|wait| LaunchError::WouldWait { kernel, wait })?;
        let failed = |error| failed(kernel, stream.context(), Some(id), error);
        // The handle of the default stream stands for that of the current context. And cudarc keeps the error of a stream that could
        // not be made to wait for a slice: then nothing may be launched.
        driver::bind(stream.context()).map_err(failed)?;
        // SAFETY: the caller's promise.
        unsafe { driver::launch(function, stream, &config, args) }.map_err(failed)
    }
}

impl KernelInfo {
    /// The driver's handle of the kernel in a context where it is warm, for calls that this library does not make.
    /// Its module may be a piece of the [kernel's image](crate::warm_all#large-ptx-images).
    ///
    /// # Errors
    ///
    /// The kernel is not warm there, and could not be loaded late.
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

/// Finds the kernel in the rare cases: another context of the device, another `CudaContext` of the same context, a kernel
/// that is not warm.
#[cold]
fn find(kernel: &'static KernelInfo, context: &Arc<CudaContext>) -> Result<Ready, LaunchError> {
    let driver_error = |error| LaunchError::Driver { kernel, error };
    let id = ContextId::query(context).map_err(|error| {
        let warmed = kernel.table().get(context).map(|ready| ready.context.id);
        failed(kernel, context, warmed, error)
    })?;
    match kernel.table().find(context.ordinal(), id) {
        Some(Ready { limits, .. }) if limits.unavailable_below != 0 => {
            let arch = driver::architecture(context).map_err(driver_error)?;
            Err(LaunchError::Unavailable { kernel, min_arch: limits.unavailable_below, arch })
        }
        Some(ready) => Ok(ready),
        None => late::load(kernel, context, id).map_err(|refused| not_loaded(kernel, refused)),
    }
}

fn not_loaded(kernel: &'static KernelInfo, refused: NotLoaded) -> LaunchError {
    match refused {
        NotLoaded::NotWarm => LaunchError::NotWarm { kernel },
        NotLoaded::RegisteredLater => LaunchError::RegisteredLater { kernel },
        NotLoaded::OtherCopy(others) => LaunchError::OtherCopy { kernel, others },
        NotLoaded::WouldWait(wait) => LaunchError::WouldWait { kernel, wait },
        NotLoaded::Failed(error) => LaunchError::Late { kernel, error: Box::new(error) },
    }
}

/// Turns a driver error into a more specific one where possible: after a reset the handles are invalid, and after a fork
/// the driver is unusable. `warmed` is the id of the context in which the kernel was warm.
#[cold]
fn failed(
    kernel: &'static KernelInfo,
    context: &CudaContext,
    warmed: Option<ContextId>,
    error: DriverCallError,
) -> LaunchError {
    if let Err(error) = Driver::get() {
        return LaunchError::DriverUnavailable { kernel, error };
    }
    if warmed.is_some() && warmed != ContextId::query(context).ok() {
        LaunchError::Reset { kernel }
    } else {
        LaunchError::Driver { kernel, error }
    }
}
