//! The kernel that stays while another one is launched, and gives up by itself.

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::CudaStream;
use kernel_registry::{LaunchConfig, launch_raw};

use crate::bench::{Bench, Word};
use crate::is_simulated;

/// How long it stays. A kernel that takes as long to run counts as one that waits.
fn limit() -> Duration {
    // In software a kernel takes longer.
    Duration::from_millis(if is_simulated() { 2000 } else { 300 })
}

/// How long it may take to start.
const START: Duration = Duration::from_secs(10);

/// Values of [`Word::Status`].
const ABSENT: u32 = 0;
const PRESENT: u32 = 1;

/// The kernel, on its way or running.
pub(crate) struct Resident<'a> {
    bench: &'a Bench,
    stream: &'a Arc<CudaStream>,
}

impl<'a> Resident<'a> {
    /// Launches it, and returns when it runs.
    pub(crate) fn start(bench: &'a Bench, stream: &'a Arc<CudaStream>) -> Result<Self, Box<dyn Error>> {
        for word in [Word::Flag, Word::Status, Word::Done, Word::ChildDone] {
            bench.set(word, 0);
        }
        let (mut flag, mut status) = (bench.address(Word::Flag), bench.address(Word::Status));
        let mut limit = limit().as_nanos() as u64;
        let args = &mut [(&raw mut flag).cast(), (&raw mut status).cast(), (&raw mut limit).cast()];
        // SAFETY: these are its parameters, and the words are never freed.
        unsafe { launch_raw(bench.stay, stream, LaunchConfig::new([1, 1, 1], [1, 1, 1]), args)? };
        let begun = Instant::now();
        while bench.read(Word::Status) == ABSENT {
            if begun.elapsed() > START {
                return Err("the resident kernel did not start".into());
            }
            thread::yield_now();
        }
        Ok(Resident { bench, stream })
    }

    /// Waits until a word is set. False if the kernel was gone by then.
    pub(crate) fn sees(&self, word: Word) -> bool {
        let begun = Instant::now();
        // A kernel that was ended by the failure of another one does not say that it is gone.
        while self.is_there() && begun.elapsed() < 2 * limit() {
            if self.bench.read(word) != 0 {
                // The word may have been set when the kernel had just gone.
                return self.is_there();
            }
            thread::yield_now();
        }
        false
    }

    fn is_there(&self) -> bool {
        self.bench.read(Word::Status) == PRESENT
    }

    /// Ends it, and waits until it is gone.
    pub(crate) fn release(self) -> Result<(), Box<dyn Error>> {
        self.bench.set(Word::Flag, 1);
        Ok(self.stream.synchronize()?)
    }
}
