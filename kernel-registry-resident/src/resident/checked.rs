//! `Checked`, a resident kernel that was found to fit, and its launch.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::CudaStream;
use kernel_registry::__private_0_1::resident::{
    ContextId, Current, Driver, Family, Launch, SealedConfigure, check_stream, handle_of, launch_on,
};
use kernel_registry::{Configure, Kernel, LaunchError, Prepared, Untyped};
use kernel_registry_cuda::fit::Device;

use super::fit::Figures;
use super::room::fits;
use super::section::Options;
use super::{Fit, ResidentError, Section};
use crate::control::Control;
use crate::driver;
use crate::partition;
use crate::sections::{Guard, NotBegun, Processors, ResidentGrid};

/// A kernel that can be resident, as [`Resident::check`](super::Resident::check) has found.
#[must_use = "nothing is launched before `launch`"]
pub struct Checked<K = Untyped> {
    pub(super) prepared: Prepared<K>,
    pub(super) figures: Figures,
    pub(super) room: Device,
    /// The resident kernels that ran when this kernel was checked.
    pub(super) residents: Vec<ResidentGrid>,
    pub(super) fit: Fit,
    /// The multiprocessors that the kernel will run on.
    pub(super) on: Processors,
    pub(super) within: Family,
    pub(super) options: Options,
}

impl<K> Checked<K> {
    /// Returns what fits next to the kernel.
    pub fn fit(&self) -> &Fit {
        &self.fit
    }

    /// Begins the section of the kernel, and calls the closure, which launches the kernel: it passes its
    /// argument to the kernel's `launch` as the configuration.
    ///
    /// The stream must not wait for the default stream, so use a stream of cudarc's
    /// `CudaContext::new_stream`. Use the stream for nothing else: work that is submitted to it later starts
    /// only when the kernel has ended.
    ///
    /// # Errors
    ///
    /// [`ResidentError`], for example if a resident kernel that was launched since the check leaves too
    /// little room.
    pub fn launch(
        self,
        stream: &Arc<CudaStream>,
        launch: impl FnOnce(&Starting<'_, K>) -> Result<(), LaunchError>,
    ) -> Result<Section, ResidentError> {
        let Checked { prepared, figures, room, residents, mut fit, on, within, options } = self;
        let kernel = figures.kernel;
        let error = |error| ResidentError::Driver { kernel, error };
        let info = prepared.kernel();
        let driver = Driver::get().map_err(|error| LaunchError::DriverUnavailable { kernel: info, error })?;
        let (function, context) = handle_of(&prepared);
        let id = ContextId::query(stream.context()).map_err(error)?;
        if id != context {
            return Err(ResidentError::OtherContext { kernel });
        }
        let current = Current::new(stream.context(), driver).map_err(error)?;
        if driver::is_blocking(stream).map_err(error)? {
            return Err(ResidentError::BlockingStream { kernel });
        }
        if driver::is_captured(stream).map_err(error)? {
            return Err(ResidentError::Captured { kernel });
        }
        check_stream(stream).map_err(|wait| LaunchError::WouldWait { kernel: info, wait })?;
        let part = partition::find_part(stream, driver).map_err(error)?;
        if part.map(|(green, _)| green) != on.part.map(|part| part.green) {
            return Err(ResidentError::OtherPart { kernel });
        }
        driver::prefer_carveout(&current, function, figures.launch.carveout).map_err(error)?;
        drop(current);
        let control = control(stream, &figures, &options)?;
        let still_fits = |now: &[ResidentGrid]| {
            if now == residents {
                return Ok(());
            }
            fit = fits(&figures, &room, on, now)?;
            if fit.is_refused() {
                Err(ResidentError::NoRoom { kernel, fit: Box::new(fit.clone()) })
            } else {
                Ok(())
            }
        };
        let grid = ResidentGrid { kernel, launch: figures.launch, on };
        let guard = Guard::begin(within, grid, still_fits).map_err(|why| match why {
            NotBegun::Busy => ResidentError::Busy { kernel },
            NotBegun::Refused(error) => error,
        })?;
        let mut section = Section::begin(driver, kernel, stream, control, guard, fit, &options);
        let starting = Starting {
            prepared: &prepared,
            stream,
            control: section.control(),
            launched: section.launched_flag(),
        };
        launch(&starting)?;
        if section.launched() { Ok(section) } else { Err(ResidentError::NotLaunched { kernel }) }
    }
}

/// The launch of a kernel that will be resident. Pass it as the configuration to the kernel's `launch`.
pub struct Starting<'a, K = Untyped> {
    prepared: &'a Prepared<K>,
    stream: &'a CudaStream,
    control: &'a Control,
    /// Set before the driver is called.
    launched: &'a AtomicBool,
}

fn control(stream: &CudaStream, figures: &Figures, options: &Options) -> Result<Control, ResidentError> {
    let kernel = figures.kernel;
    // A grid that fits on a device has fewer blocks than `u32::MAX`.
    let blocks = u32::try_from(figures.launch.grid).unwrap_or(u32::MAX);
    let control = Control::new(stream.context(), blocks);
    let control = control.map_err(|error| ResidentError::DriverUnavailable { kernel, error })?;
    match options.limit {
        Some(limit) => control.limit(limit),
        None => control.unlimited(),
    }
    Ok(control)
}

impl<K: Kernel> SealedConfigure for &Starting<'_, K> {}

impl<K: Kernel> Configure<K> for &Starting<'_, K> {
    fn configure(self, stream: &CudaStream) -> Result<Launch<'_>, LaunchError> {
        if stream.cu_stream() != self.stream.cu_stream() {
            return Err(LaunchError::OtherStream { kernel: self.prepared.kernel() });
        }
        self.launched.store(true, Ordering::Relaxed);
        launch_on(self.prepared, stream)
    }
}

impl<K> Starting<'_, K> {
    /// Returns the control block of the section, as an argument for a kernel that takes
    /// `kernel_registry::Control*`.
    pub fn control(&self) -> &Control {
        self.control
    }

    /// Returns the stream of the launch.
    pub fn stream(&self) -> &CudaStream {
        self.stream
    }

    /// Launches the kernel with unchecked arguments. The `launch` of the kernel's type takes typed arguments.
    ///
    /// # Errors
    ///
    /// The same errors as [`Prepared::launch`].
    ///
    /// # Safety
    ///
    /// The [contract of every launch](kernel_registry#the-contract-of-a-launch).
    pub unsafe fn launch(&self, args: &mut [*mut c_void]) -> Result<(), LaunchError> {
        self.launched.store(true, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.prepared.launch(self.stream, args) }
    }
}

impl<K> fmt::Debug for Checked<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked").field("fit", &self.fit).finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for Starting<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Starting").field("prepared", self.prepared).finish_non_exhaustive()
    }
}
