//! `Fence`, a stream that waits for a word in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kernel_registry::PointerTo;
use kernel_registry::cudarc::driver::{CudaStream, sys};
use kernel_registry_resident::Mapped;

use crate::Outcome;

/// A stream in which `cuStreamWaitValue32` waits until another thread or a kernel writes a word. After a time limit a watchdog thread
/// writes the word.
#[derive(Debug)]
pub struct Fence {
    stream: Arc<CudaStream>,
    word: Arc<Mapped<AtomicU32>>,
    watchdog: JoinHandle<bool>,
    /// The channel to the watchdog. A message stops the watchdog.
    passed: Sender<()>,
}

impl Fence {
    /// Makes the stream wait. Returns 20 ms later, when the stream is waiting.
    pub fn start(stream: Arc<CudaStream>, word: Mapped<AtomicU32>, limit: Duration) -> Outcome<Self> {
        stream.context().bind_to_thread()?;
        let word = Arc::new(word);
        let address = PointerTo::<u32>::address(&*word);
        let until = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ as u32;
        // SAFETY: the stream's context is current, and the word exists until the stream has passed.
        unsafe { sys::cuStreamWaitValue32_v2(stream.cu_stream(), address, 1, until).result()? };
        let (passed, has_passed) = mpsc::channel();
        let watched = word.clone();
        let watchdog = thread::spawn(move || {
            let nobody = has_passed.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            watched[0].store(1, Ordering::Release);
            nobody
        });
        thread::sleep(Duration::from_millis(20));
        Ok(Fence { stream, word, watchdog, passed })
    }

    /// Returns the word. Writing 1 into it lets the stream pass.
    pub fn word(&self) -> &Mapped<AtomicU32> {
        &self.word
    }

    /// Returns whether the stream still waits: the word is not written yet.
    pub fn is_closed(&self) -> bool {
        self.word[0].load(Ordering::Acquire) == 0
    }

    /// Waits until the stream has passed. Returns whether it was the watchdog that wrote the word.
    pub fn pass(self) -> Outcome<bool> {
        self.stream.synchronize()?;
        // Sending fails if the watchdog has already written the word and ended.
        let _ = self.passed.send(());
        self.watchdog.join().map_err(|_| "the watchdog panicked".into())
    }

    /// Writes the word, and waits until the stream has passed.
    pub fn open(self) -> Outcome {
        self.word[0].store(1, Ordering::Release);
        self.pass().map(|_| ())
    }
}
