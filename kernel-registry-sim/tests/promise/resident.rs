//! A resident kernel, which stays until it is told to end.

use std::error::Error;
use std::sync::Arc;

use kernel_registry::Warmup;
use kernel_registry::cudarc::driver::{CudaContext, CudaStream, sys};
use kernels::waiting::spin_until_flag;

pub struct Resident {
    stream: Arc<CudaStream>,
    flag: *mut u32,
}

impl Resident {
    /// Warms the kernel, and starts it. It gives up after a minute.
    pub fn start(context: &Arc<CudaContext>) -> Result<Self, Box<dyn Error>> {
        Warmup::new().only(|kernel| kernel == spin_until_flag::INFO).hooks(false).warm(context)?;
        let stream = context.new_stream()?;
        let mut words = std::ptr::null_mut();
        // SAFETY: a context is current; the memory is zeroed.
        unsafe { sys::cuMemHostAlloc(&mut words, 8, 2).result()? };
        let flag = words.cast::<u32>();
        const LIMIT: u64 = 60_000_000_000;
        // SAFETY: both are words of that memory, which stays for the rest of the program.
        unsafe {
            spin_until_flag::launch(&stream, spin_until_flag::over(1), flag, flag.wrapping_add(1), LIMIT)?;
        }
        Ok(Resident { stream, flag })
    }

    /// Ends the kernel, and waits for it.
    pub fn stop(self) -> Result<(), Box<dyn Error>> {
        // SAFETY: the word is there, and the device only reads it.
        unsafe { self.flag.write_volatile(1) };
        self.stream.synchronize()?;
        Ok(())
    }
}
