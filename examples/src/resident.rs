//! A resident kernel: one that stays on the device until it is told to stop.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use kernel_registry::LaunchConfig;
use kernel_registry::cudarc::driver::{CudaContext, CudaStream};

use crate::{Loaded, Mapped, Outcome};

/// The kernel `spin_until_flag` while it runs: it spins until its flag is set or a time limit is over.
#[derive(Debug)]
pub struct Resident {
    stream: Arc<CudaStream>,
    /// The flag, and the kernel's result.
    words: Mapped,
}

impl Resident {
    /// Launches the kernel, and waits until it runs.
    pub fn start(context: &Arc<CudaContext>, spin_until_flag: &Loaded, limit: Duration) -> Outcome<Self> {
        let resident = Resident { stream: context.new_stream()?, words: Mapped::zeroed(context, 2)? };
        let args = [
            resident.words.address(0).expose_provenance() as u64,
            resident.words.address(1).expose_provenance() as u64,
            limit.as_nanos() as u64,
        ];
        // SAFETY: these are its parameters. Freeing the words waits for the kernel.
        unsafe { spin_until_flag.launch(&resident.stream, LaunchConfig::new([1; 3], [1; 3]), &args)? };
        thread::sleep(Duration::from_millis(20));
        Ok(resident)
    }

    /// The word that the kernel waits for.
    pub fn flag(&self) -> *mut u32 {
        self.words.address(0)
    }

    /// Whether the kernel still spins.
    pub fn is_there(&self) -> bool {
        self.words[1].load(Ordering::Acquire) == 0
    }

    /// Waits until the kernel has ended. Returns whether it gave up.
    pub fn gave_up(&self) -> Outcome<bool> {
        self.stream.synchronize()?;
        Ok(self.words[1].load(Ordering::Acquire) == 2)
    }

    /// Sets the flag, and waits until the kernel has ended.
    pub fn release(self) -> Outcome {
        self.words[0].store(1, Ordering::Release);
        Ok(self.stream.synchronize()?)
    }
}
