//! Starts and ends the resident work that runs while an operation is tried: a resident kernel, or a stream
//! that waits. It ends by itself after [`Bench::limit`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kernel_registry::LaunchConfig;
use kernel_registry::cudarc::driver::sys;
use sys::CUdevice_attribute_enum as Attribute;

use crate::bench::{Bench, Word};
use crate::cuda::{self, Done, FunctionAttribute};

/// The kinds of resident work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResidentWork {
    /// A kernel with one thread, on a stream that waits for no other.
    Thread,
    /// A kernel with one thread, on the default stream.
    ThreadOnLegacy,
    /// A kernel with one thread, on a stream that waits for the default stream.
    ThreadOnBlocking,
    /// A kernel with a block of one thread on every multiprocessor.
    EverySm,
    /// A kernel with a block of one thread on every multiprocessor, which prefers the most shared memory.
    EverySmCarved,
    /// A kernel that leaves no room for any other thread.
    WholeDevice,
    /// No kernel, but a stream that waits for a word.
    PendingWait,
}

/// Resident work that was started.
pub(crate) enum Resident {
    Kernel {
        stream: sys::CUstream,
    },
    /// A stream that waits for a word. A host thread sets the word after the time limit.
    Wait {
        stream: sys::CUstream,
        over: Arc<AtomicBool>,
    },
}

/// Values of [`Word::Status`].
const ABSENT: u32 = 0;
const PRESENT: u32 = 1;

impl Resident {
    /// Prepares the resident work. Comes before the preparation of the tried operation.
    pub(crate) fn prepare(bench: &Bench, work: ResidentWork) -> Done {
        match work {
            ResidentWork::EverySmCarved => {
                let which = FunctionAttribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
                cuda::set_function_attribute(bench.stay, which, 100)
            }
            _ => Ok(()),
        }
    }

    /// Starts the resident work, and returns when it runs. Filling a simulated device takes half a second,
    /// and longer on a busy machine.
    pub(crate) fn start(bench: &Bench, work: ResidentWork) -> Done<Self> {
        let one_thread = [1, 1, 1];
        let sms = || bench.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        let (grid, block) = match work {
            ResidentWork::PendingWait => return Self::wait(bench),
            ResidentWork::Thread | ResidentWork::ThreadOnLegacy | ResidentWork::ThreadOnBlocking => {
                (1, one_thread)
            }
            ResidentWork::EverySm | ResidentWork::EverySmCarved => (sms()?, one_thread),
            ResidentWork::WholeDevice => {
                let threads =
                    bench.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?;
                (2 * sms()?, [threads / 2, 1, 1])
            }
        };
        let stream = match work {
            ResidentWork::ThreadOnLegacy => cuda::legacy_stream(),
            ResidentWork::ThreadOnBlocking => cuda::stream(cuda::BLOCKING)?,
            _ => bench.resident_stream,
        };
        bench.launch_resident(stream, &LaunchConfig::new([grid, 1, 1], block), bench.limit)?;
        while bench.read(Word::Status) == ABSENT {
            thread::yield_now();
        }
        Ok(Resident::Kernel { stream })
    }

    fn wait(bench: &Bench) -> Done<Self> {
        cuda::wait_value(bench.resident_stream, bench.address_of(Word::Flag))?;
        // The driver can't tell whether the stream has reached the wait.
        thread::sleep(bench.limit / 50);
        let over = Arc::new(AtomicBool::new(false));
        let (is_over, flag, limit) = (over.clone(), bench.word(Word::Flag), bench.limit);
        thread::spawn(move || {
            thread::sleep(limit);
            // Set first, so that work that runs after the wait sees it.
            is_over.store(true, Ordering::SeqCst);
            flag.store(1, Ordering::SeqCst);
        });
        Ok(Resident::Wait { stream: bench.resident_stream, over })
    }

    pub(crate) fn is_running(&self, bench: &Bench) -> bool {
        match self {
            Resident::Kernel { .. } => bench.read(Word::Status) == PRESENT,
            Resident::Wait { over, .. } => !over.load(Ordering::SeqCst),
        }
    }

    /// Tells the resident work to end, and waits until it has ended.
    pub(crate) fn release(self, bench: &Bench) -> Done {
        bench.set(Word::Flag, 1);
        match self {
            Resident::Kernel { stream } | Resident::Wait { stream, .. } => cuda::synchronize_stream(stream),
        }
    }
}
