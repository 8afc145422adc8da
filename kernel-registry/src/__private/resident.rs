//! The gate for kernel-registry-resident: what it needs of this crate beside the API.

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
    /// The number of its device.
    pub ordinal: usize,
    /// The device's architecture.
    pub arch: u32,
    /// What a multiprocessor has room for, if the architecture is known.
    pub room: Option<fit::Device>,
    /// Its warm kernels.
    pub kernels: Vec<WarmKernel>,
}

impl Known {
    /// The context of a receipt.
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

    /// Why a kernel is not among the warm ones.
    pub fn why_not_warm(&self, kernel: &'static KernelInfo) -> LaunchError {
        let found = kernel.table().find(self.ordinal, self.id);
        match found.map_or(0, |found| found.limits.unavailable_below) {
            0 => LaunchError::NotWarm { kernel },
            min_arch => LaunchError::Unavailable { kernel, min_arch, arch: self.arch },
        }
    }
}

/// The error of a call of the driver.
pub fn driver_error(call: &'static str, result: cudarc::driver::sys::CUresult) -> DriverCallError {
    DriverCallError::new(call, result)
}

/// The version of the driver.
pub fn version(driver: &Driver) -> CudaVersion {
    driver.version
}

/// Checks a launch once for many.
pub fn prepare<K>(
    kernel: &'static KernelInfo,
    context: &Arc<CudaContext>,
    config: LaunchConfig,
) -> Result<Prepared<K>, LaunchError> {
    Prepared::checked(kernel, context, config)
}

/// The handle of a checked launch's kernel, and the id of its context.
pub fn handle_of<K>(prepared: &Prepared<K>) -> (Function, ContextId) {
    (prepared.function, prepared.id)
}

/// A checked launch in a stream.
pub fn launch_on<'a, K>(
    prepared: &Prepared<K>,
    stream: &'a cudarc::driver::CudaStream,
) -> Result<Launch<'a>, LaunchError> {
    prepared.on(stream)
}

/// Why a call that was watched has no result.
pub enum Unfinished {
    /// It has not returned for this long.
    Waiting(Duration),
    /// The system started no thread for it, for this reason.
    NoThread(String),
}

/// Makes a call that waits for the device in another thread, for the timeout of the context's warm-ups.
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
