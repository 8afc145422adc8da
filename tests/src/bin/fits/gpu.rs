//! Makes the driver calls of the trials: loads modules, launches kernels, and reads words in mapped memory.

use std::cell::Cell;
use std::error::Error;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kernel_registry::cudarc::driver::sys::CUfunction_attribute_enum as FunctionAttribute;
use kernel_registry::cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute};
use kernel_registry::cudarc::driver::{CudaContext, DriverError, result};
use kernel_registry_cuda::fit::{Device, Launch};

use crate::ptx::{self, Role, Spec, Word};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The most blocks per multiprocessor that have a word to report their arrival.
const MOST_BLOCKS: u32 = 64;

/// Selects the words of the first or the second resident kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    First = 0,
    Second = 1,
}

pub(crate) struct Gpu {
    _context: Arc<CudaContext>,
    /// The device's figures from the driver.
    pub(crate) device: Device,
    pub(crate) name: String,
    pub(crate) resident: sys::CUstream,
    pub(crate) probe: sys::CUstream,
    /// The words of both areas.
    words: *mut c_void,
    /// The size of an area in bytes.
    area: usize,
    pub(crate) second: sys::CUstream,
    /// The number of the newest attempt.
    last: Cell<u32>,
    /// The time after which a resident kernel ends by itself.
    pub(crate) limit: Duration,
    /// The time after which a probe kernel that hasn't run counts as waiting.
    pub(crate) window: Duration,
    /// The time without another arrival after which a grid counts as incomplete.
    pub(crate) pause: Duration,
}

/// A loaded kernel.
pub(crate) struct Loaded {
    module: sys::CUmodule,
    function: sys::CUfunction,
    pub(crate) spec: Spec,
    pub(crate) registers: u32,
    pub(crate) static_shared: u32,
    /// The bytes of local memory of a thread, for spilled registers.
    pub(crate) local: u32,
    /// The number of blocks that fit on a multiprocessor, according to the driver.
    pub(crate) occupancy: u32,
}

impl Loaded {
    /// Describes a launch of the kernel, with the driver's figures.
    pub(crate) fn launch(&self, grid: u32) -> Launch {
        let Spec { threads, dynamic_shared, carveout, .. } = self.spec;
        Launch {
            grid: grid.into(),
            threads,
            registers: self.registers,
            static_shared: self.static_shared,
            dynamic_shared,
            carveout,
            cluster: 1,
        }
    }
}

impl Gpu {
    pub(crate) fn open() -> Outcome<Self> {
        let context = kernel_registry::context(0)?;
        let device = device(&context)?;
        let area = Word::Arrivals.offset() + (device.processors * MOST_BLOCKS) as usize * 4;
        let bytes = 2 * area;
        // SAFETY: the context is current. The memory lives until the process ends.
        let words = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_DEVICEMAP)? };
        // SAFETY: the allocation has so many bytes.
        unsafe { ptr::write_bytes(words.cast::<u8>(), 0, bytes) };
        let stream = || result::stream::create(result::stream::StreamKind::NonBlocking);
        let milliseconds =
            |gpu, simulated| Duration::from_millis(if tests::is_simulated() { simulated } else { gpu });
        Ok(Gpu {
            name: context.name()?,
            device,
            resident: stream()?,
            probe: stream()?,
            words,
            area,
            second: stream()?,
            last: Cell::new(0),
            limit: milliseconds(1_000, 60_000),
            window: milliseconds(150, 1_500),
            pause: milliseconds(20, 1_000),
            _context: context,
        })
    }

    /// Returns the number of a new attempt. Words that earlier attempts set hold other numbers.
    pub(crate) fn next_number(&self) -> u32 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    /// Returns whether there are words for all blocks of a grid.
    pub(crate) fn has_words_for(&self, grid: u32) -> bool {
        grid <= self.device.processors * MOST_BLOCKS
    }

    fn word(&self, area: Area, offset: usize) -> &AtomicU32 {
        // SAFETY: the memory holds this word, aligned, and lives until the process ends. The device reads and
        // writes each word in one access.
        unsafe { AtomicU32::from_ptr(self.words_of(area).wrapping_byte_add(offset).cast()) }
    }

    fn words_of(&self, area: Area) -> *mut c_void {
        self.words.wrapping_byte_add(area as usize * self.area)
    }

    pub(crate) fn is_set(&self, area: Area, word: Word, number: u32) -> bool {
        self.word(area, word.offset()).load(Ordering::SeqCst) == number
    }

    pub(crate) fn set(&self, area: Area, word: Word, number: u32) {
        self.word(area, word.offset()).store(number, Ordering::SeqCst);
    }

    /// Counts the blocks of a grid that have arrived.
    pub(crate) fn arrived(&self, area: Area, grid: u32, number: u32) -> u32 {
        let word = |block: u32| self.word(area, Word::Arrivals.offset() + block as usize * 4);
        (0..grid).filter(|block| word(*block).load(Ordering::Relaxed) == number).count() as u32
    }

    /// Loads a kernel completely, so that its launch doesn't load anything.
    pub(crate) fn load(&self, spec: Spec, role: Role) -> Outcome<Loaded> {
        let (text, name) = (CString::new(ptx::text(&spec, role))?, CString::new(ptx::NAME)?);
        // SAFETY: the text ends with a zero byte, and the module is loaded until `unload`.
        unsafe {
            let module = result::module::load_data(text.as_ptr().cast())?;
            let function = result::module::get_function(module, name)?;
            let set = |which, value: u32| {
                result::function::set_function_attribute(function, which, value.cast_signed())
            };
            let get =
                |which| result::function::get_function_attribute(function, which).map(i32::unsigned_abs);
            if spec.dynamic_shared > 0 {
                set(FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, spec.dynamic_shared)?;
            }
            if let Some(percent) = spec.carveout {
                set(FunctionAttribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent)?;
            }
            let occupancy = result::occupancy::max_active_block_per_multiprocessor(
                function,
                spec.threads.cast_signed(),
                spec.dynamic_shared as usize,
            )?;
            Ok(Loaded {
                module,
                function,
                spec,
                registers: get(FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
                static_shared: get(FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
                local: get(FunctionAttribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
                occupancy: occupancy.unsigned_abs(),
            })
        }
    }

    /// Launches a kernel.
    pub(crate) fn launch(
        &self,
        kernel: &Loaded,
        grid: u32,
        stream: sys::CUstream,
        area: Area,
        mut number: u32,
    ) -> Result<(), DriverError> {
        let mut words = self.words_of(area);
        let mut limit = self.limit.as_nanos() as u64;
        let args = &mut [(&raw mut words).cast(), (&raw mut number).cast(), (&raw mut limit).cast()];
        let Spec { threads, dynamic_shared, .. } = kernel.spec;
        // SAFETY: the arguments match the kernel's parameters. With unified addresses the words have the same
        // address on the device. There are words for all blocks of the grid.
        unsafe {
            result::launch_kernel(
                kernel.function,
                (grid, 1, 1),
                (threads, 1, 1),
                dynamic_shared,
                stream,
                args,
            )
        }
    }

    /// Waits for all streams, whose kernels end by themselves.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: `Gpu` created these streams, and they exist.
        unsafe {
            result::stream::synchronize(self.resident)?;
            result::stream::synchronize(self.second)?;
            result::stream::synchronize(self.probe)
        }
    }

    /// Unloads a kernel that does not run.
    pub(crate) fn unload(&self, kernel: Loaded) -> Result<(), DriverError> {
        // SAFETY: nothing of the module is used afterwards.
        unsafe { result::module::unload(kernel.module) }
    }

    /// Returns a text with the driver's version and the device.
    pub(crate) fn words(&self) -> String {
        let Device { sm, processors, .. } = self.device;
        format!("{}, sm_{sm}, {processors} multiprocessors", self.name)
    }
}

/// Returns this device's row of the table, filled in by the driver.
fn device(context: &CudaContext) -> Outcome<Device> {
    let get = |which| context.attribute(which).map(i32::unsigned_abs);
    let sm = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
        + get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let row = Device::of(sm).ok_or_else(|| format!("the table of devices has no sm_{sm}"))?;
    Ok(Device {
        processors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        block_threads: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        threads: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        blocks: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)?,
        registers: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        block_registers: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)?,
        shared: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        block_shared: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        reserved_shared: get(Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?,
        ..row.clone()
    })
}
