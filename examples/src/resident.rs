//! A kernel that stays.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use kernel_registry::LaunchConfig;
use kernel_registry::cudarc::driver::{CudaContext, CudaStream};

use crate::{Loaded, Mapped, Outcome};

/// `spin_until_flag`, running: it stays until its flag is set, or gives up after a limit.
#[derive(Debug)]
pub struct Resident {
    stream: Arc<CudaStream>,
    /// The flag, and what became of the kernel.
    words: Mapped,
}

impl Resident {
    /// Launches it, and waits until it must be there.
    pub fn start(context: &Arc<CudaContext>, spin_until_flag: &Loaded, limit: Duration) -> Outcome<Self> {
        let resident = Resident { stream: context.new_stream()?, words: Mapped::zeroed(context, 2)? };
        let args = [
            resident.words.address(0).expose_provenance() as u64,
            resident.words.address(1).expose_provenance() as u64,
            limit.as_nanos() as u64,
        ];
        // SAFETY: these are its parameters, and the words are freed when it is done and no earlier: the driver waits.
        unsafe { spin_until_flag.launch(&resident.stream, LaunchConfig::new([1; 3], [1; 3]), &args)? };
        thread::sleep(Duration::from_millis(20));
        Ok(resident)
    }

    /// The word that it waits for.
    pub fn flag(&self) -> *mut u32 {
        self.words.address(0)
    }

    /// Whether it still waits.
    pub fn is_there(&self) -> bool {
        self.words[1].load(Ordering::Acquire) == 0
    }

    /// Waits until it is gone, and says whether it gave up.
    pub fn gave_up(&self) -> Outcome<bool> {
        self.stream.synchronize()?;
        Ok(self.words[1].load(Ordering::Acquire) == 2)
    }

    /// Sets the flag, and waits until it is gone.
    pub fn release(self) -> Outcome {
        self.words[0].store(1, Ordering::Release);
        Ok(self.stream.synchronize()?)
    }
}
