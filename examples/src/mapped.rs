//! Memory that host and device both access while a kernel runs.

use std::ops::Deref;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use kernel_registry::cudarc::driver::{CudaContext, result, sys};

use crate::Outcome;

/// Words in host memory that the device accesses under the same address. Host and running kernels communicate through
/// them.
///
/// cudarc's pinned memory is made for copies: it waits for them before it can be accessed.
#[derive(Debug)]
pub struct Mapped {
    words: &'static [AtomicU32],
    context: Arc<CudaContext>,
}

impl Mapped {
    /// Allocates this many words, all 0.
    pub fn zeroed(context: &Arc<CudaContext>, count: usize) -> Outcome<Self> {
        context.bind_to_thread()?;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: a context is current. The memory has room for the words, which are zeroed before they are read, and
        // stays in place as long as `self`, which lends them for no longer.
        let words = unsafe {
            let words = result::malloc_host(count * size_of::<AtomicU32>(), flags)?.cast::<AtomicU32>();
            words.write_bytes(0, count);
            slice::from_raw_parts(words, count)
        };
        Ok(Mapped { words, context: context.clone() })
    }

    /// The address of a word, on host and device.
    pub fn address(&self, word: usize) -> *mut u32 {
        self.words[word].as_ptr()
    }
}

impl Deref for Mapped {
    type Target = [AtomicU32];

    fn deref(&self) -> &[AtomicU32] {
        self.words
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // If the context is gone, the memory is freed already.
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: it was allocated here, and only kernels may still use it: the driver waits for them.
            let _ = unsafe { result::free_host(self.words.as_ptr().cast_mut().cast()) };
        }
    }
}
