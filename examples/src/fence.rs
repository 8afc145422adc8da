//! A stream that waits for a word.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kernel_registry::cudarc::driver::{CudaStream, sys};

use crate::{Mapped, Outcome};

/// A stream that waits for a word in memory, `cuStreamWaitValue32`, which somebody else will write. A watchdog does it if
/// nobody else has after a limit.
#[derive(Debug)]
pub struct Fence {
    stream: Arc<CudaStream>,
    word: Arc<Mapped>,
    watchdog: JoinHandle<bool>,
    /// Calls the watchdog off.
    passed: Sender<()>,
}

impl Fence {
    /// Lets a stream wait, and waits until it must be doing so.
    pub fn start(stream: Arc<CudaStream>, word: Mapped, limit: Duration) -> Outcome<Self> {
        stream.context().bind_to_thread()?;
        let word = Arc::new(word);
        let address = word.address(0).expose_provenance() as u64;
        let until = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ as u32;
        // SAFETY: the context of the stream is current, and the word stays until the stream has passed.
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

    /// The word: 1 lets the stream pass.
    pub fn word(&self) -> *mut u32 {
        self.word.address(0)
    }

    /// Whether nobody has written the word.
    pub fn is_there(&self) -> bool {
        self.word[0].load(Ordering::Acquire) == 0
    }

    /// Waits until the stream has passed, and says whether it took the watchdog.
    pub fn pass(self) -> Outcome<bool> {
        self.stream.synchronize()?;
        // It is gone if it has written the word.
        let _ = self.passed.send(());
        self.watchdog.join().map_err(|_| "the watchdog panicked".into())
    }

    /// Opens it.
    pub fn open(self) -> Outcome {
        self.word[0].store(1, Ordering::Release);
        self.pass().map(|_| ())
    }
}
