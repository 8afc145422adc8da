//! Launches the resident kernel, beside which other kernels are launched. The resident kernel ends by itself at a
//! time limit.

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry::cudarc::driver::CudaStream;
use kernel_registry::{LaunchConfig, Prepared};

use crate::bench::{Bench, Word};
use crate::case::is_simulated;

/// Returns the time limit of the resident kernel. A kernel that has not run after this time counts as waiting.
fn limit() -> Duration {
    // The simulated driver is slower.
    Duration::from_millis(if is_simulated() { 2000 } else { 300 })
}

/// The longest time that the resident kernel may take to start.
const START: Duration = Duration::from_secs(10);

// Values of [`Word::Status`].
const ABSENT: u32 = 0;
const PRESENT: u32 = 1;

/// The launched resident kernel.
pub(crate) struct Resident<'a> {
    bench: &'a Bench,
    stream: &'a Arc<CudaStream>,
}

impl<'a> Resident<'a> {
    /// Launches the resident kernel, and returns when the kernel runs.
    pub(crate) fn start(bench: &'a Bench, stream: &'a Arc<CudaStream>) -> Result<Self, Box<dyn Error>> {
        for word in [Word::Flag, Word::Status, Word::Done, Word::ChildDone] {
            bench.set(word, 0);
        }
        let (mut flag, mut status) = (bench.address(Word::Flag), bench.address(Word::Status));
        let mut limit = limit().as_nanos() as u64;
        let args = &mut [(&raw mut flag).cast(), (&raw mut status).cast(), (&raw mut limit).cast()];
        let prepared =
            Prepared::untyped(bench.stay, stream.context(), LaunchConfig::new([1, 1, 1], [1, 1, 1]))?;
        // SAFETY: the arguments match the kernel's parameters, and the words are never freed.
        unsafe { prepared.launch(stream, args)? };
        let begun = Instant::now();
        while bench.read(Word::Status) == ABSENT {
            if begun.elapsed() > START {
                return Err("the resident kernel did not start".into());
            }
            thread::yield_now();
        }
        Ok(Resident { bench, stream })
    }

    /// Waits until a word is set. Returns false if the resident kernel ended first.
    pub(crate) fn sees(&self, word: Word) -> bool {
        let begun = Instant::now();
        // If another kernel's failure ends the resident kernel, the status is not set, so the time is limited too.
        while self.is_running() && begun.elapsed() < 2 * limit() {
            if self.bench.read(word) != 0 {
                // The word may have been set just after the resident kernel ended.
                return self.is_running();
            }
            thread::yield_now();
        }
        false
    }

    fn is_running(&self) -> bool {
        self.bench.read(Word::Status) == PRESENT
    }

    /// Tells the kernel to end, and waits until it has ended.
    pub(crate) fn release(self) -> Result<(), Box<dyn Error>> {
        self.bench.set(Word::Flag, 1);
        Ok(self.stream.synchronize()?)
    }
}
