//! A stream that waits for a word in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kernel_registry::PointerTo;
use kernel_registry::cudarc::driver::{CudaStream, sys};
use kernel_registry_resident::Mapped;

use crate::Outcome;

/// A stream in `cuStreamWaitValue32`, which waits until some other thread or kernel writes a word. After a time limit
/// a watchdog writes it.
#[derive(Debug)]
pub struct Fence {
    stream: Arc<CudaStream>,
    word: Arc<Mapped<AtomicU32>>,
    watchdog: JoinHandle<bool>,
    /// Stops the watchdog.
    passed: Sender<()>,
}

impl Fence {
    /// Makes the stream wait, and returns once it must be waiting.
    pub fn start(stream: Arc<CudaStream>, word: Mapped<AtomicU32>, limit: Duration) -> Outcome<Self> {
        stream.context().bind_to_thread()?;
        let word = Arc::new(word);
        let address = PointerTo::<u32>::address(&*word);
        let until = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ as u32;
        // SAFETY: the stream's context is current, and the word stays until the stream has passed.
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

    /// The word: writing 1 lets the stream pass.
    pub fn word(&self) -> &Mapped<AtomicU32> {
        &self.word
    }

    /// Whether the word is not yet written.
    pub fn is_there(&self) -> bool {
        self.word[0].load(Ordering::Acquire) == 0
    }

    /// Waits until the stream has passed. Returns whether the watchdog wrote the word.
    pub fn pass(self) -> Outcome<bool> {
        self.stream.synchronize()?;
        // The receiver is gone if the watchdog has written the word.
        let _ = self.passed.send(());
        self.watchdog.join().map_err(|_| "the watchdog panicked".into())
    }

    /// Writes the word.
    pub fn open(self) -> Outcome {
        self.word[0].store(1, Ordering::Release);
        self.pass().map(|_| ())
    }
}
