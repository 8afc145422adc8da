//! Holds what all rows share: a context, streams, and words that host and device access.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use census_kernels::Words;
use kernel_registry::cudarc::driver::{CudaContext, sys};
use kernel_registry::{KernelInfo, LaunchConfig, Warmup};
use sys::CUdevice_attribute_enum as Attribute;

use crate::cuda::{self, Done, Failed, FunctionAttribute, Sent};

/// One block of one warp, which is how most kernels are launched.
pub(crate) const ONE_WARP: LaunchConfig = LaunchConfig::new([1, 1, 1], [32, 1, 1]);

/// The context, the streams and the words of a row's process.
pub(crate) struct Bench {
    context: Arc<CudaContext>,
    /// The time after which resident work ends by itself.
    pub(crate) limit: Duration,
    /// Whether kernel-registry warmed every kernel before the row.
    pub(crate) warmed: bool,
    /// The stream of the resident kernel.
    pub(crate) resident_stream: sys::CUstream,
    /// The stream of the operation that the row tries.
    pub(crate) tried_stream: sys::CUstream,
    /// The loaded resident kernel.
    pub(crate) stay: sys::CUfunction,
    memory: *mut c_void,
    address: sys::CUdeviceptr,
    /// The row's other threads that call the driver.
    others: RefCell<Vec<JoinHandle<Done>>>,
}

/// The calls of another thread.
pub(crate) type Other = Box<dyn FnOnce() -> Done + Send>;

/// The index of a word in mapped memory. Each word has a separate cache line.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    /// The host sets this word to end the resident kernel.
    Flag = 0,
    /// The resident kernel reports here whether it runs.
    Status = 1,
    /// The tried kernel sets this word.
    Done = 2,
    /// Rows can use this word as they like.
    Spare = 3,
}

const WORDS: usize = 4;
const DISTANCE: usize = 64;

impl Bench {
    pub(crate) fn new(warmed: bool, limit: Duration) -> Done<Self> {
        let context = kernel_registry::context(0).map_err(|error| failed_call("context", error))?;
        let stay =
            cuda::function(cuda::load_module(census_kernels::stay::INFO)?, census_kernels::stay::INFO)?;
        cuda::load_function(stay)?;
        let memory = cuda::alloc_host(WORDS * DISTANCE)?;
        let address = cuda::device_address(memory)?;
        let (resident_stream, tried_stream) =
            (cuda::stream(cuda::NON_BLOCKING)?, cuda::stream(cuda::NON_BLOCKING)?);
        let bench = Bench {
            context,
            limit,
            warmed,
            resident_stream,
            tried_stream,
            stay,
            memory,
            address,
            others: RefCell::default(),
        };
        for word in [Word::Flag, Word::Status, Word::Done, Word::Spare] {
            bench.set(word, 0);
        }
        if warmed {
            // One kernel takes gigabytes of stack on purpose.
            let warmup = Warmup::new().stack_budget(u64::MAX).warm(&bench.context);
            warmup.map_err(|error| failed_call("warm_all", error))?;
        }
        Ok(bench)
    }

    pub(crate) fn device(&self) -> sys::CUdevice {
        self.context.cu_device()
    }

    pub(crate) fn attribute(&self, which: Attribute) -> Done<u32> {
        cuda::device_attribute(self.device(), which)
    }

    pub(crate) fn word(&self, word: Word) -> &'static AtomicU32 {
        let address: *mut u32 = self.memory.wrapping_byte_add(word as usize * DISTANCE).cast();
        // SAFETY: the memory holds all words, aligned, and lives until the process ends. The device reads and
        // writes each word in one access.
        unsafe { AtomicU32::from_ptr(address) }
    }

    pub(crate) fn read(&self, word: Word) -> u32 {
        self.word(word).load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, word: Word, value: u32) {
        self.word(word).store(value, Ordering::SeqCst);
    }

    /// Returns the device address of a word.
    pub(crate) fn address_of(&self, word: Word) -> sys::CUdeviceptr {
        self.address + (word as usize * DISTANCE) as u64
    }

    /// Returns a loaded kernel, which kernel-registry has warmed, or whose module this function loads.
    pub(crate) fn loaded(&self, kernel: &'static KernelInfo) -> Done<sys::CUfunction> {
        self.warm_or(kernel, || {
            let function = cuda::function(cuda::load_module(kernel)?, kernel)?;
            cuda::load_function(function)?;
            Ok(function)
        })
    }

    /// Returns the kernel's warm function if kernel-registry warmed the kernels, or else the one that the row
    /// loads.
    pub(crate) fn warm_or(
        &self,
        kernel: &'static KernelInfo,
        cold: impl FnOnce() -> Done<sys::CUfunction>,
    ) -> Done<sys::CUfunction> {
        if !self.warmed {
            return cold();
        }
        kernel.cu_function(&self.context).map_err(|error| failed_call("cu_function", error))
    }

    /// Launches a kernel that sets [`Word::Done`] when it runs.
    pub(crate) fn launch(&self, function: sys::CUfunction) -> Done {
        self.launch_as(function, self.tried_stream, &ONE_WARP)
    }

    pub(crate) fn launch_on(&self, function: sys::CUfunction, stream: sys::CUstream) -> Done {
        self.launch_as(function, stream, &ONE_WARP)
    }

    pub(crate) fn launch_as(
        &self,
        function: sys::CUfunction,
        stream: sys::CUstream,
        config: &LaunchConfig,
    ) -> Done {
        self.with_args(|args| cuda::launch(function, stream, config, args))
    }

    /// Calls `then` with arguments for a kernel that sets `Word::Done`. Only one kernel has the third
    /// parameter; for all others, the driver ignores the third argument.
    pub(crate) fn with_args<T>(&self, then: impl FnOnce(&mut [*mut c_void]) -> T) -> T {
        with_args(self.address_of(Word::Done), then)
    }

    /// Returns a launch for another thread to make. The kernel sets the given word.
    pub(crate) fn launch_elsewhere(
        &self,
        function: sys::CUfunction,
        stream: sys::CUstream,
        word: Word,
    ) -> Other {
        let (function, stream, done) = (Sent::new(function), Sent::new(stream), self.address_of(word));
        Box::new(move || with_args(done, |args| cuda::launch(function.get(), stream.get(), &ONE_WARP, args)))
    }

    /// Starts another thread in this context, which makes these calls.
    pub(crate) fn start(&self, other: Other) -> Done {
        let context = Sent::new(cuda::current_context()?);
        let thread = thread::spawn(move || {
            cuda::set_context(context.get())?;
            other()
        });
        self.others.borrow_mut().push(thread);
        Ok(())
    }

    /// Waits for the row's other threads.
    pub(crate) fn join(&self) -> Done {
        let panicked = |_| Failed("another thread panicked".into());
        self.others.take().into_iter().try_for_each(|thread| thread.join().map_err(panicked)?)
    }

    /// Launches a kernel and waits for it.
    pub(crate) fn launch_and_wait(&self, function: sys::CUfunction) -> Done {
        self.launch(function)?;
        cuda::synchronize()
    }

    /// Launches the resident kernel.
    pub(crate) fn launch_resident(
        &self,
        stream: sys::CUstream,
        config: &LaunchConfig,
        limit: Duration,
    ) -> Done {
        let (mut flag, mut status) = (self.address_of(Word::Flag), self.address_of(Word::Status));
        let mut limit = limit.as_nanos() as u64;
        let args = &mut [(&raw mut flag).cast(), (&raw mut status).cast(), (&raw mut limit).cast()];
        cuda::launch(self.stay, stream, config, args)
    }

    /// Launches a kernel of `cuda/earlier.cu` and waits for it. `really` makes the kernel use its printf or
    /// malloc.
    pub(crate) fn run_earlier(&self, kernel: &KernelInfo, really: bool, stream: sys::CUstream) -> Done {
        let function = cuda::function(cuda::load_module(kernel)?, kernel)?;
        let mut really = u32::from(really);
        let one_thread = LaunchConfig::new([1, 1, 1], [1, 1, 1]);
        cuda::launch(function, stream, &one_thread, &mut [(&raw mut really).cast()])?;
        cuda::synchronize()
    }

    /// Raises a function's dynamic shared memory to the most that leaves room for a block without shared
    /// memory on the same multiprocessor. Such a block still takes the shared memory that the device reserves
    /// for each block.
    pub(crate) fn grant_shared(&self, function: sys::CUfunction) -> Done<LaunchConfig> {
        let most = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let reserved = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?;
        let bytes = most - reserved;
        let which = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        cuda::set_function_attribute(function, which, bytes)?;
        Ok(ONE_WARP.shared(bytes))
    }
}

fn with_args<T>(mut done: sys::CUdeviceptr, then: impl FnOnce(&mut [*mut c_void]) -> T) -> T {
    let (mut n, mut rest) = (100_u32, Words([0; 900]));
    then(&mut [(&raw mut done).cast(), (&raw mut n).cast(), (&raw mut rest).cast()])
}

fn failed_call(call: &'static str, error: impl ToString) -> Failed {
    Failed(format!("{call}: {}", error.to_string()))
}
