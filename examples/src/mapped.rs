//! Memory that host and device see at once.

use std::ops::Deref;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use kernel_registry::cudarc::driver::{CudaContext, PinnedHostSlice, sys};

use crate::Outcome;

/// Words in memory of the host that the device sees too, under the same address: how the two talk while a kernel runs.
#[derive(Debug)]
pub struct Mapped {
    /// In what `memory` owns.
    words: &'static [AtomicU32],
    memory: PinnedHostSlice<u32>,
}

impl Mapped {
    /// That many words, all of them 0.
    pub fn zeroed(context: &Arc<CudaContext>, count: usize) -> Outcome<Self> {
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: it is filled before anybody reads it.
        let mut memory = unsafe { context.alloc_pinned_with_flags::<u32>(count, flags)? };
        memory.as_mut_slice()?.fill(0);
        // SAFETY: the memory stays where it is as long as `self`, which lends the words for no longer; from here on
        // everybody reaches it through atomics or from the device.
        let words = unsafe { slice::from_raw_parts(memory.as_mut_ptr()?.cast(), count) };
        Ok(Mapped { words, memory })
    }

    /// The address of a word, here and on the device.
    pub fn address(&self, word: usize) -> *mut u32 {
        self.words[word].as_ptr()
    }

    /// The context that the memory is of.
    pub fn context(&self) -> &Arc<CudaContext> {
        self.memory.context()
    }
}

impl Deref for Mapped {
    type Target = [AtomicU32];

    fn deref(&self) -> &[AtomicU32] {
        self.words
    }
}
