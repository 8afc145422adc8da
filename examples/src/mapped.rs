//! Memory that host and device see at once.

use std::ops::Deref;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use kernel_registry::cudarc::driver::{CudaContext, result, sys};

use crate::Outcome;

/// Words in memory of the host that the device sees too, under the same address: how the two talk while a kernel runs.
///
/// Pinned memory of cudarc's is for copies: it waits for them before anybody may look at it.
#[derive(Debug)]
pub struct Mapped {
    words: &'static [AtomicU32],
    context: Arc<CudaContext>,
}

impl Mapped {
    /// That many words, all of them 0.
    pub fn zeroed(context: &Arc<CudaContext>, count: usize) -> Outcome<Self> {
        context.bind_to_thread()?;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: a context is current; the memory has room for the words, which are zeroed before anybody reads them, and
        // stays where it is as long as `self`, which lends them for no longer.
        let words = unsafe {
            let words = result::malloc_host(count * size_of::<AtomicU32>(), flags)?.cast::<AtomicU32>();
            words.write_bytes(0, count);
            slice::from_raw_parts(words, count)
        };
        Ok(Mapped { words, context: context.clone() })
    }

    /// The address of a word, here and on the device.
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
        // Without its context it is freed already.
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: it was allocated, and nobody has the words any more: where kernels have, the driver waits for them.
            let _ = unsafe { result::free_host(self.words.as_ptr().cast_mut().cast()) };
        }
    }
}
