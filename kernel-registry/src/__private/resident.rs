//! The private interface for kernel-registry-resident: the functions and types that it needs in addition to the API.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::CudaContext;
use kernel_registry_cuda::fit;

pub use crate::address::Sealed as SealedPointer;
use crate::contexts::KnownContext;
pub use crate::contexts::WarmKernel;
pub use crate::driver::{ContextId, Current, Driver, Function, Pushed, bind, call, lookup};
pub use crate::launch::{Launch, Sealed as SealedConfigure, check};
pub use crate::lock::lock;
pub use crate::param::layout;
pub use crate::sections::{Family, Loading, begin, check_stream, end, launched, loading};
use crate::watch::{self, Activity, NoResult, TIMEOUT, Timeouts, Watch};
use crate::{
    CudaVersion, DriverCallError, KernelInfo, LaunchConfig, LaunchError, Prepared, RecheckError, Warm,
};

/// A context in which kernels are warm.
pub struct Known {
    /// The context's id.
    pub id: ContextId,
    /// The number of the context's device.
    pub ordinal: usize,
    /// The device's architecture.
    pub arch: u32,
    /// The resources of the device's multiprocessors. `None` if the architecture is newer than this library.
    pub room: Option<fit::Device>,
    /// The kernels that are warm in the context.
    pub kernels: Vec<WarmKernel>,
}

impl Known {
    /// Finds the context of a receipt.
    pub fn find(warm: &Warm) -> Result<Self, RecheckError> {
        let known = KnownContext::find(warm.id()).ok_or(RecheckError::Reset)?;
        let device = known.device.get().ok_or(RecheckError::Reset)?;
        let loaded = known.lock_within(crate::warm::MOMENT).ok_or(RecheckError::Warming)?;
        let kernels = loaded.kernels.values().filter(|_| !loaded.forgotten).cloned().collect();
        Ok(Known {
            id: known.id,
            ordinal: known.ordinal,
            arch: device.arch,
            room: device.room.clone(),
            kernels,
        })
    }

    /// Returns the error that says why a kernel is not warm in the context.
    pub fn why_not_warm(&self, kernel: &'static KernelInfo) -> LaunchError {
        let found = kernel.table().find(self.ordinal, self.id);
        match found.map_or(0, |found| found.limits.unavailable_below) {
            0 => LaunchError::NotWarm { kernel },
            min_arch => LaunchError::Unavailable { kernel, min_arch, arch: self.arch },
        }
    }
}

/// Creates the error of a driver call.
pub fn driver_error(call: &'static str, result: cudarc::driver::sys::CUresult) -> DriverCallError {
    DriverCallError::new(call, result)
}

/// Returns the version of the driver.
pub fn version(driver: &Driver) -> CudaVersion {
    driver.version
}

/// Checks a launch once, so that it can be made many times.
pub fn prepare<K>(
    kernel: &'static KernelInfo,
    context: &Arc<CudaContext>,
    config: LaunchConfig,
) -> Result<Prepared<K>, LaunchError> {
    Prepared::checked(kernel, context, config)
}

/// Returns the handle of a prepared launch's kernel, and the id of its context.
pub fn handle_of<K>(prepared: &Prepared<K>) -> (Function, ContextId) {
    (prepared.function, prepared.id)
}

/// Returns a prepared launch in a stream.
pub fn launch_on<'a, K>(
    prepared: &Prepared<K>,
    stream: &'a cudarc::driver::CudaStream,
) -> Result<Launch<'a>, LaunchError> {
    prepared.on(stream)
}

/// Why a call that was watched has no result.
pub enum Unfinished {
    /// The call has not returned for this long.
    Waiting(Duration),
    /// The operating system started no thread for the call, for this reason.
    NoThread(String),
}

/// Makes a call that may wait for the device, in another thread. Waits for it as long as the context's warm-ups wait for a call.
pub fn watched<T: Send + 'static>(
    context: ContextId,
    call: &'static str,
    make: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unfinished> {
    let known = KnownContext::find(context);
    let timeout = known.and_then(|known| lock(&known.policy).timeout).unwrap_or(TIMEOUT);
    let timeouts = Timeouts { device: timeout, hook: timeout };
    let make = move |watch: &Watch<()>| {
        watch.call(call, "");
        make()
    };
    watch::watched(Activity::new(|| {}), &timeouts, |()| {}, make).map_err(|error| match error {
        NoResult::Overdue(_) => Unfinished::Waiting(timeout),
        NoResult::NoThread(error) => Unfinished::NoThread(error.to_string()),
    })
}
