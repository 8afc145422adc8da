//! Launches a resident kernel that runs until it's released, or ends by itself at a time limit.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use kernel_registry::LaunchConfig;
use kernel_registry::cudarc::driver::{CudaContext, CudaStream};
use kernel_registry_resident::{Control, Mapped};
use kernel_registry_resident::{Ended, Presence};
use kernels::waiting::spin_until_flag;

/// The kernel `spin_until_flag` while it runs.
pub(crate) struct Resident {
    stream: Arc<CudaStream>,
    control: Control,
    _flag: Mapped<AtomicU32>,
}

/// The state or the result of the resident kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Status {
    Spinning,
    Released,
    TimedOut,
}

impl Resident {
    /// Launches one thread of the kernel, and waits until the kernel runs.
    pub(crate) fn start(context: &Arc<CudaContext>, limit: Duration) -> Result<Self, Box<dyn Error>> {
        Self::on(context.new_stream()?, LaunchConfig::new([1, 1, 1], [1, 1, 1]), limit)
    }

    /// Launches a grid of the kernel in a stream, and waits until all blocks run.
    pub(crate) fn on(
        stream: Arc<CudaStream>,
        config: LaunchConfig,
        limit: Duration,
    ) -> Result<Self, Box<dyn Error>> {
        let control = Control::new(stream.context(), config.grid.iter().product())?;
        let flag = Mapped::<AtomicU32>::zeroed(stream.context(), 1)?;
        control.limit(limit);
        // SAFETY: the kernel ends before the memory of its arguments is freed, because freeing waits for the
        // kernel.
        unsafe { spin_until_flag::launch(&stream, config, &flag, &control)? };
        control.wait_for_blocks(limit)?;
        Ok(Resident { stream, control, _flag: flag })
    }

    pub(crate) fn status(&self) -> Status {
        match self.control.presence() {
            Presence::Ended(Ended::Limit) => Status::TimedOut,
            Presence::Ended(_) => Status::Released,
            _ => Status::Spinning,
        }
    }

    /// Releases the kernel, and returns its result.
    pub(crate) fn release(self) -> Result<Status, Box<dyn Error>> {
        self.control.stop();
        self.stream.synchronize()?;
        Ok(self.status())
    }
}
