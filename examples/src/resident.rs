//! `Resident`, a running kernel that spins until its flag is set.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use kernel_registry::cudarc::driver::{CudaContext, CudaStream};
use kernel_registry::{LaunchConfig, PointerTo};
use kernel_registry_resident::{Control, Mapped};
use kernel_registry_resident::{Ended, Presence};

use crate::{ARRIVAL_TIMEOUT, Loaded, Outcome};

/// The kernel `spin_until_flag` while it runs. It spins until its flag is set or a time limit is over.
#[derive(Debug)]
pub struct Resident {
    stream: Arc<CudaStream>,
    flag: Mapped<AtomicU32>,
    control: Control,
}

impl Resident {
    /// Launches the kernel, and waits until it runs.
    pub fn start(context: &Arc<CudaContext>, spin_until_flag: &Loaded, limit: Duration) -> Outcome<Self> {
        let resident = Resident {
            stream: context.new_stream()?,
            flag: Mapped::<AtomicU32>::zeroed(context, 1)?,
            control: Control::new(context, 1)?,
        };
        resident.control.limit(limit);
        let args = [PointerTo::<u32>::address(&resident.flag), resident.control.address()];
        // SAFETY: `args` are the kernel's parameters. Freeing the memory that they point to waits for the kernel.
        unsafe { spin_until_flag.launch(&resident.stream, LaunchConfig::new([1; 3], [1; 3]), &args)? };
        resident.control.wait_for_blocks(ARRIVAL_TIMEOUT)?;
        Ok(resident)
    }

    /// Returns the word that the kernel waits for.
    pub fn flag(&self) -> &Mapped<AtomicU32> {
        &self.flag
    }

    /// Returns whether the kernel still spins.
    pub fn is_running(&self) -> bool {
        self.control.presence() == Presence::There
    }

    /// Waits until the kernel has ended. Returns whether it ended because its time limit was over.
    pub fn gave_up(&self) -> Outcome<bool> {
        self.stream.synchronize()?;
        Ok(self.control.presence() == Presence::Ended(Ended::Limit))
    }

    /// Stops the kernel, and waits until it has ended.
    pub fn release(self) -> Outcome {
        self.control.stop();
        Ok(self.stream.synchronize()?)
    }
}
