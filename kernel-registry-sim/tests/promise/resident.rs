//! Starts and stops a resident kernel.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use kernel_registry::cudarc::driver::{CudaContext, CudaStream};
use kernel_registry::{WarmError, Warmup};
use kernel_registry_resident::{Control, Mapped};
use kernels::waiting::spin_until_flag;

pub struct Resident {
    stream: Arc<CudaStream>,
    control: Control,
    _flag: Mapped<AtomicU32>,
}

impl Resident {
    /// Warms the kernel, and starts it. The kernel ends by itself after a minute.
    pub fn start(context: &Arc<CudaContext>) -> Result<Self, Box<dyn Error>> {
        Self::warm(context)?;
        Self::start_warm(context)
    }

    pub fn warm(context: &Arc<CudaContext>) -> Result<(), WarmError> {
        Warmup::new().only(|kernel| kernel == spin_until_flag::INFO).hooks(false).warm(context).map(drop)
    }

    /// Starts the kernel, which must be warm.
    pub fn start_warm(context: &Arc<CudaContext>) -> Result<Self, Box<dyn Error>> {
        let (stream, control) = (context.new_stream()?, Control::new(context, 1)?);
        let flag = Mapped::<AtomicU32>::zeroed(context, 1)?;
        control.limit(Duration::from_secs(60));
        // SAFETY: freeing the flag and the control block waits for the kernel.
        unsafe { spin_until_flag::launch(&stream, spin_until_flag::over(1), &flag, &control)? };
        Ok(Resident { stream, control, _flag: flag })
    }

    /// Ends the kernel, and waits for its end.
    pub fn stop(self) -> Result<(), Box<dyn Error>> {
        self.control.stop();
        self.stream.synchronize()?;
        Ok(())
    }
}
