//! Holds the words that host and device share, and creates the contexts in which kernels are launched.

use std::error::Error;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kernel_registry::KernelInfo;
use kernel_registry::cudarc::driver::{CudaContext, result, sys};

/// The primary context of the first device, and words in mapped host memory, which all contexts access.
pub(crate) struct Bench {
    context: Arc<CudaContext>,
    pub(crate) stay: &'static KernelInfo,
    memory: *mut u32,
}

/// The index of a word in the mapped memory.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    /// The host sets this word to end the resident kernel.
    Flag = 0,
    /// The resident kernel says here whether it runs.
    Status = 16,
    /// The launched kernel sets this word.
    Done = 32,
    /// The kernel that the launched kernel launches sets this word.
    ChildDone = 33,
}

const BYTES: usize = 256;

impl Bench {
    pub(crate) fn new(stay: &'static KernelInfo) -> Result<Self, Box<dyn Error>> {
        let context = kernel_registry::context(0)?;
        context.bind_to_thread()?;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        let mut memory = ptr::null_mut();
        // SAFETY: a context is current. The memory is never freed, and is zeroed before it is read.
        unsafe {
            sys::cuMemHostAlloc(&mut memory, BYTES, flags).result()?;
            memory.cast::<u8>().write_bytes(0, BYTES);
        }
        Ok(Bench { context, stay, memory: memory.cast() })
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Returns the address of a word, which is the same on host and device.
    pub(crate) fn address(&self, word: Word) -> *mut u32 {
        self.memory.wrapping_add(word as usize)
    }

    fn word(&self, word: Word) -> &AtomicU32 {
        // SAFETY: the memory holds all words, aligned, and is never freed. The device reads and writes each word in one
        // access.
        unsafe { AtomicU32::from_ptr(self.address(word)) }
    }

    pub(crate) fn read(&self, word: Word) -> u32 {
        self.word(word).load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, word: Word, value: u32) {
        self.word(word).store(value, Ordering::SeqCst);
    }
}

/// Creates another context on the first device, with default limits.
pub(crate) fn new_context() -> Result<Arc<CudaContext>, Box<dyn Error>> {
    let device = result::device::get(0)?;
    // SAFETY: the context is new, and the `CudaContext` owns it from here on.
    unsafe {
        let mut context = ptr::null_mut();
        sys::cuCtxCreate_v4(&mut context, ptr::null_mut(), 0, device).result()?;
        Ok(CudaContext::from_raw_context(0, device, context)?)
    }
}
