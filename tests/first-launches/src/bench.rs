//! What every launch works with: words that host and device both see, and contexts.

use std::error::Error;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kernel_registry::KernelInfo;
use kernel_registry::cudarc::driver::{CudaContext, result, sys};

/// The primary context of the first device, and words in mapped memory of the host, which every context sees.
pub(crate) struct Bench {
    context: Arc<CudaContext>,
    pub(crate) stay: &'static KernelInfo,
    memory: *mut u32,
}

/// A word, by its place.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    /// Set by the host: the resident kernel may go.
    Flag = 0,
    /// Set by the resident kernel.
    Status = 16,
    /// Set by the kernel that is launched.
    Done = 32,
    /// Set by the kernel that this one launches.
    ChildDone = 33,
}

const BYTES: usize = 256;

impl Bench {
    pub(crate) fn new(stay: &'static KernelInfo) -> Result<Self, Box<dyn Error>> {
        let context = kernel_registry::context(0)?;
        context.bind_to_thread()?;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        let mut memory = ptr::null_mut();
        // SAFETY: a context is current; the memory is never freed, and zeroed before anyone reads it.
        unsafe {
            sys::cuMemHostAlloc(&mut memory, BYTES, flags).result()?;
            memory.cast::<u8>().write_bytes(0, BYTES);
        }
        Ok(Bench { context, stay, memory: memory.cast() })
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Where host and device see a word.
    pub(crate) fn address(&self, word: Word) -> *mut u32 {
        self.memory.wrapping_add(word as usize)
    }

    fn word(&self, word: Word) -> &AtomicU32 {
        // SAFETY: the memory has all the words, aligned, and is never freed; the device accesses each as a whole too.
        unsafe { AtomicU32::from_ptr(self.address(word)) }
    }

    pub(crate) fn read(&self, word: Word) -> u32 {
        self.word(word).load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, word: Word, value: u32) {
        self.word(word).store(value, Ordering::SeqCst);
    }
}

/// A further context of the first device, with all limits as they are by default.
pub(crate) fn new_context() -> Result<Arc<CudaContext>, Box<dyn Error>> {
    let device = result::device::get(0)?;
    // SAFETY: the context is new, and belongs to the `CudaContext` from here on.
    unsafe {
        let mut context = ptr::null_mut();
        sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, device).result()?;
        Ok(CudaContext::from_raw_context(0, device, context)?)
    }
}
