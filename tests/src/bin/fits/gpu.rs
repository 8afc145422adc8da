//! The driver calls: modules, launches, and words in mapped memory.

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

/// Blocks whose arrival can be told, for each multiprocessor.
const MOST_BLOCKS: u32 = 64;

/// The words of the first kernel that stays, or of the second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    First = 0,
    Second = 1,
}

pub(crate) struct Gpu {
    _context: Arc<CudaContext>,
    /// What the driver says of the device.
    pub(crate) device: Device,
    pub(crate) name: String,
    pub(crate) stays: sys::CUstream,
    pub(crate) passes: sys::CUstream,
    /// Those of both areas.
    words: *mut c_void,
    /// Bytes of an area.
    area: usize,
    pub(crate) second: sys::CUstream,
    /// The number of the last attempt.
    last: Cell<u32>,
    /// How long a kernel stays if the host does not end it.
    pub(crate) limit: Duration,
    /// How long a kernel may take to run before it counts as waiting.
    pub(crate) window: Duration,
    /// How long no further block arrives before the grid counts as not whole.
    pub(crate) pause: Duration,
}

/// A loaded kernel.
pub(crate) struct Loaded {
    module: sys::CUmodule,
    function: sys::CUfunction,
    pub(crate) spec: Spec,
    pub(crate) registers: u32,
    pub(crate) static_shared: u32,
    /// Bytes of local memory of a thread: spilled registers.
    pub(crate) local: u32,
    /// Blocks that fit on a multiprocessor, as the driver says.
    pub(crate) occupancy: u32,
}

impl Loaded {
    /// A launch of it, with the driver's figures.
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
        // SAFETY: the context is current. The memory stays until the process ends.
        let words = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_DEVICEMAP)? };
        // SAFETY: it has so many bytes.
        unsafe { ptr::write_bytes(words.cast::<u8>(), 0, bytes) };
        let stream = || result::stream::create(result::stream::StreamKind::NonBlocking);
        let milliseconds =
            |gpu, simulated| Duration::from_millis(if tests::is_simulated() { simulated } else { gpu });
        Ok(Gpu {
            name: context.name()?,
            device,
            stays: stream()?,
            passes: stream()?,
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

    /// The number of a new attempt: words of earlier ones have others.
    pub(crate) fn next_number(&self) -> u32 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    /// Whether a grid's arrival can be told.
    pub(crate) fn has_words_for(&self, grid: u32) -> bool {
        grid <= self.device.processors * MOST_BLOCKS
    }

    fn word(&self, area: Area, offset: usize) -> &AtomicU32 {
        // SAFETY: the memory has this word, aligned, and stays; the device accesses words as a whole too.
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

    /// How many of a grid's blocks have arrived.
    pub(crate) fn arrived(&self, area: Area, grid: u32, number: u32) -> u32 {
        let word = |block: u32| self.word(area, Word::Arrivals.offset() + block as usize * 4);
        (0..grid).filter(|block| word(*block).load(Ordering::Relaxed) == number).count() as u32
    }

    /// Loads a kernel, so that no launch loads anything.
    pub(crate) fn load(&self, spec: Spec, role: Role) -> Outcome<Loaded> {
        let (text, name) = (CString::new(ptx::text(&spec, role))?, CString::new(ptx::NAME)?);
        // SAFETY: the text ends with a zero, and the module stays until `unload`.
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
        // SAFETY: these are the kernel's parameters, and with unified addresses the words have the same address on the
        // device. They have room for the grid's arrivals.
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
        // SAFETY: these are our streams.
        unsafe {
            result::stream::synchronize(self.stays)?;
            result::stream::synchronize(self.second)?;
            result::stream::synchronize(self.passes)
        }
    }

    /// Unloads a kernel that does not run.
    pub(crate) fn unload(&self, kernel: Loaded) -> Result<(), DriverError> {
        // SAFETY: nothing of the module is used afterwards.
        unsafe { result::module::unload(kernel.module) }
    }

    /// The driver's version and the device, in words.
    pub(crate) fn words(&self) -> String {
        let Device { sm, processors, .. } = self.device;
        format!("{}, sm_{sm}, {processors} multiprocessors", self.name)
    }
}

/// The row of the table with what the driver says of this device.
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
