//! A resident kernel: it stays until it is released, or gives up at a time limit.

use std::error::Error;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kernel_registry::cudarc::driver::{CudaContext, CudaStream, sys};
use kernel_registry::{LaunchConfig, launch_raw};
use kernels::waiting::spin_until_flag;

/// The kernel `spin_until_flag` while it runs.
pub(crate) struct Resident {
    stream: Arc<CudaStream>,
    /// The flag, and the kernel's result, in mapped host memory.
    words: *mut u32,
}

/// The kernel's state or result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Status {
    Spinning,
    Released,
    TimedOut,
}

/// Two words that device and host share. They are zero, and never freed.
pub(crate) fn words(context: &CudaContext) -> Result<*mut u32, Box<dyn Error>> {
    context.bind_to_thread()?;
    let mut words = ptr::null_mut();
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
    // SAFETY: a context is current; the memory is 8 bytes, and zeroed before it is read.
    unsafe {
        sys::cuMemHostAlloc(&mut words, 8, flags).result()?;
        words.cast::<u64>().write(0);
    }
    Ok(words.cast())
}

impl Resident {
    /// Launches one thread of the kernel, and waits until it runs.
    pub(crate) fn start(context: &Arc<CudaContext>, limit: Duration) -> Result<Self, Box<dyn Error>> {
        Self::on(context.new_stream()?, LaunchConfig::new([1, 1, 1], [1, 1, 1]), limit)
    }

    /// The same in a stream, with any grid.
    pub(crate) fn on(
        stream: Arc<CudaStream>,
        config: LaunchConfig,
        limit: Duration,
    ) -> Result<Self, Box<dyn Error>> {
        let words = words(stream.context())?;
        let resident = Resident { stream, words };
        let (mut flag, mut status) = (resident.words, resident.words.wrapping_add(1));
        let mut limit = limit.as_nanos() as u64;
        let args = &mut [(&raw mut flag).cast(), (&raw mut status).cast(), (&raw mut limit).cast()];
        // SAFETY: these are its parameters; the memory stays, and the device accesses it under the same addresses.
        unsafe { launch_raw(spin_until_flag::INFO, &resident.stream, config, args)? };
        thread::sleep(Duration::from_millis(20));
        Ok(resident)
    }

    pub(crate) fn status(&self) -> Status {
        // SAFETY: the memory is never freed, and only the device writes to it.
        match unsafe { self.words.wrapping_add(1).read_volatile() } {
            0 => Status::Spinning,
            1 => Status::Released,
            _ => Status::TimedOut,
        }
    }

    /// Releases the kernel, and returns the result it had before.
    pub(crate) fn release(self) -> Result<Status, Box<dyn Error>> {
        // SAFETY: the memory is never freed, and the device only reads it.
        unsafe { self.words.write_volatile(1) };
        self.stream.synchronize()?;
        Ok(self.status())
    }
}
