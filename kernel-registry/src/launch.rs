//! Launching: finds the handle of a warm kernel, checks the configuration, and calls the driver. A launch takes no lock, allocates
//! nothing, hashes nothing and reads no record.

mod check;
mod configure;
mod dynamic;
mod error;
mod parameter;
pub(crate) mod pass;
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

    /// Records that an argument is memory of the context `owner`. Null means memory whose context does not matter.
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
        // The context must be current, because the handle of the default stream means the default stream of the current context.
        // `bind` also returns an error that cudarc keeps if the stream could not be made to wait for a slice. Then nothing may be
        // launched.
        driver::bind(stream.context()).map_err(failed)?;
        // SAFETY: the caller's promise.
        unsafe { driver::launch(function, stream, &config, args) }.map_err(failed)
    }
}

impl KernelInfo {
    /// Returns the driver's handle of the kernel in a context in which the kernel is warm, for driver calls that this library does
    /// not wrap. The handle's module may be a piece of the [kernel's image](crate::warm_all#large-ptx-images).
    ///
    /// # Errors
    ///
    /// The kernel is not warm in the context, and could not be loaded late.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), kernel_registry::MainError> {
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

/// Returns a kernel's table entry in a context, and loads the kernel late if it is not warm there.
#[inline]
fn ready(kernel: &'static KernelInfo, context: &Arc<CudaContext>) -> Result<Ready, LaunchError> {
    match kernel.table().get(context) {
        Some(ready) if ready.limits.unavailable_below == 0 => Ok(ready),
        _ => find(kernel, context),
    }
}

/// Finds the kernel in the rare cases: in a context that does not hold the device's slot, through another `CudaContext` of the same
/// context, or if the kernel is not warm.
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

/// Converts a driver error into a launch error, and names the cause if it is a reset of the context or a fork of the process. `warmed`
/// is the id of the context in which the kernel was warm.
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
