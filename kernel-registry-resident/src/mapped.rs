//! Memory that host and device both access while a kernel runs.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{CUcontext, CUdeviceptr};
use kernel_registry::__private_0_1::resident::{ContextId, SealedPointer as Sealed};
use kernel_registry::{DriverUnavailable, KernelParam, PointerTo, PointerToMut};

use crate::driver::{allocate_host, free_host};
use crate::sections;

/// Values in host memory that the device accesses under the same address. Host and running kernels communicate through
/// them. cudarc's pinned memory is made for copies: it waits for them before it can be accessed.
///
/// Words that both sides write are atomics, and a kernel takes their address:
///
/// ```no_run
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// # #[gpu_kernel(image = "tests/images/resident.ptx")]
/// # pub unsafe fn set_flag(flag: *mut u32, value: u32);
/// # }
/// # use demo::set_flag;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use kernel_registry_resident::Mapped;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let context = kernel_registry::context(0)?;
/// # let stream = context.new_stream()?;
/// let flag = Mapped::<AtomicU32>::zeroed(&context, 1)?;
/// // SAFETY: dropping the flag waits for the kernel.
/// unsafe { set_flag::launch(&stream, set_flag::config(1).block(1), &flag, 1)? };
/// while flag[0].load(Ordering::Acquire) == 0 {}
/// # Ok(())
/// # }
/// ```
///
/// Other values are copied as a whole, by [`read`](Mapped::read) and [`write`](Mapped::write). A kernel that writes one
/// meanwhile may leave half of the old value in the copy, so let a word say when it is complete. Kernels write [valid values
/// only](kernel_registry#the-contract-of-a-launch).
///
/// In CUDA the words are read and written by `kernel_registry::load` and `store` of the
/// [device header](crate::DEVICE_HEADER).
///
/// It is for kernels of the context in which it is made, because dropping it waits for these: a launch in a stream of another context refuses
/// it. A kernel there can take the address of a [`place`](Mapped::place), if the memory is kept until that kernel is done.
///
/// Resetting the context frees the memory, as well as that of a [`Control`](crate::Control) and a [`Queue`](crate::Queue): then these may
/// only be dropped.
pub struct Mapped<T> {
    memory: Memory,
    count: usize,
    values: PhantomData<T>,
}

/// Zeroed memory of the host, mapped to all devices, aligned to 256 bytes.
pub(crate) struct Memory {
    address: NonNull<c_void>,
    context: Arc<CudaContext>,
    /// The context's id: a context that is reset gets another one.
    id: ContextId,
}

// SAFETY: it is an address. Who accesses the memory decides from which threads that may be.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn zeroed(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, DriverUnavailable> {
        // The driver refuses to allocate nothing.
        let bytes = bytes.max(1);
        let address = allocate_host(context, bytes)?;
        let id = ContextId::query(context)?;
        // SAFETY: the memory has this size, and is not used yet.
        unsafe { address.cast::<u8>().write_bytes(0, bytes) };
        Ok(Memory { address, context: context.clone(), id })
    }

    /// Whether the memory still exists. Resetting its context frees it.
    pub(crate) fn is_there(&self) -> bool {
        ContextId::query(&self.context) == Ok(self.id)
    }

    /// The address of a place in it, on host and device.
    pub(crate) fn at<T>(&self, offset: usize) -> *mut T {
        self.address.as_ptr().wrapping_byte_add(offset).cast()
    }

    /// The context of the memory: freeing waits for kernels of this context only.
    pub(crate) fn owner(&self) -> CUcontext {
        self.context.cu_ctx()
    }

    /// The address on the device, as the driver's type.
    pub(crate) fn address(&self) -> CUdeviceptr {
        self.address.as_ptr().expose_provenance() as CUdeviceptr
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        release(&self.context, self.id, self.address);
    }
}

/// Frees the memory of everything that is dropped in this module, in [`Control`](crate::Control) and in [`Queue`](crate::Queue): when
/// no resident kernel is left, because freeing waits for kernels that run.
fn release(context: &Arc<CudaContext>, id: ContextId, address: NonNull<c_void>) {
    /// The address of memory that nobody else uses.
    struct Unused(NonNull<c_void>);
    // SAFETY: any thread may free it.
    unsafe impl Send for Unused {}
    let (context, memory) = (context.clone(), Unused(address));
    sections::free(None, move || {
        let Unused(address) = { memory };
        // SAFETY: the only caller drops memory that was allocated in the context of this id.
        unsafe { free_host(&context, id, address) }
    });
}

impl<T> Mapped<T> {
    fn allocate(context: &Arc<CudaContext>, count: usize) -> Result<Self, DriverUnavailable> {
        const { assert!(align_of::<T>() <= 256) };
        // The driver refuses a size that overflowed, as it refuses any that is too large.
        let bytes = count.saturating_mul(size_of::<T>());
        Ok(Mapped { memory: Memory::zeroed(context, bytes)?, count, values: PhantomData })
    }
}

impl<T: KernelParam> Mapped<T> {
    /// Allocates memory for these values, and copies them there. This does not wait for kernels that run. Dropping the
    /// memory does, but for those in a [`Section`](crate::Section): then it is freed later.
    ///
    /// # Errors
    ///
    /// The driver is unusable, or has no such memory left.
    pub fn new(context: &Arc<CudaContext>, values: &[T]) -> Result<Self, DriverUnavailable> {
        let mut mapped = Mapped::<T>::allocate(context, values.len())?;
        for (index, value) in values.iter().enumerate() {
            mapped.write(index, *value);
        }
        Ok(mapped)
    }

    /// The number of values.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Copies a value.
    ///
    /// # Panics
    ///
    /// The index is out of range.
    pub fn read(&self, index: usize) -> T {
        // SAFETY: it was written by `new`. The host does not write meanwhile, because that takes `&mut self`. The device may, valid values
        // by the contract of launches: then each byte is of the old or the new one, and a `KernelParam` is valid in any mixture.
        unsafe { self.place(index).read_volatile() }
    }

    /// Replaces a value.
    ///
    /// # Panics
    ///
    /// The index is out of range.
    pub fn write(&mut self, index: usize, value: T) {
        // SAFETY: the memory is there, and no other thread of the host accesses it.
        unsafe { self.place(index).write_volatile(value) }
    }

    /// The address of a value, on host and device.
    ///
    /// # Panics
    ///
    /// The index is out of range.
    pub fn place(&self, index: usize) -> *mut T {
        assert!(index < self.count, "there is no value {index} among {}", self.count);
        self.memory.at(index * size_of::<T>())
    }
}

impl<T> Sealed for &Mapped<T> {
    #[inline]
    fn owner(&self) -> CUcontext {
        self.memory.owner()
    }
}

impl<T: KernelParam> PointerTo<T> for &Mapped<T> {
    #[inline]
    fn address(self) -> CUdeviceptr {
        self.memory.address()
    }
}

impl<T: KernelParam> PointerToMut<T> for &Mapped<T> {}

macro_rules! words {
    ($($atomic:ident = $word:ty),+) => {
        $(
            impl Mapped<$atomic> {
                /// Allocates this many words, all 0. This does not wait for kernels that run. Dropping the memory does, but for those
                /// in a [`Section`](crate::Section): then it is freed later.
                ///
                /// # Errors
                ///
                /// The driver is unusable, or has no such memory left.
                pub fn zeroed(context: &Arc<CudaContext>, count: usize) -> Result<Self, DriverUnavailable> {
                    Mapped::allocate(context, count)
                }
            }

            impl Deref for Mapped<$atomic> {
                type Target = [$atomic];

                fn deref(&self) -> &[$atomic] {
                    // SAFETY: the memory has room for so many words, was zeroed, and stays as long as `self`, unless the program
                    // resets the context, by an `unsafe` call. The device accesses aligned words of this size as a whole.
                    unsafe { slice::from_raw_parts(self.memory.at(0), self.count) }
                }
            }

            // Keeps these implementations out of the lists in compiler errors.
            #[diagnostic::do_not_recommend]
            impl PointerTo<$word> for &Mapped<$atomic> {
                #[inline]
                fn address(self) -> CUdeviceptr {
                    self.memory.address()
                }
            }

            #[diagnostic::do_not_recommend]
            impl PointerToMut<$word> for &Mapped<$atomic> {}
        )+
    };
}

words!(AtomicU32 = u32, AtomicU64 = u64, AtomicI32 = i32, AtomicI64 = i64);

impl<T> fmt::Debug for Mapped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped")
            .field("address", &self.memory.address)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
