//! Defines `Mapped`, memory that host and device both access while a kernel runs.

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

use crate::driver::{Step, allocate_host, free_host, step_of_simulator};
use crate::sections;

/// Values in host memory that the device accesses under the same address, for communication between the host
/// and running kernels. (cudarc's pinned memory is for copies: the host's accesses wait until these are
/// done.)
///
/// Words that host or kernel write while the other side reads them are atomics. A kernel takes their address:
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
/// # fn main() -> Result<(), kernel_registry::MainError> {
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
/// Other values are copied with [`read`](Mapped::read) and [`write`](Mapped::write). If a kernel writes a
/// value while it's read, the copy may be a mixture of the old and the new value, so use an atomic word to
/// publish when a value is complete. Kernels only write [valid
/// values](kernel_registry#the-contract-of-a-launch).
///
/// CUDA code reads and writes the words with `kernel_registry::load` and `store` of the [device
/// header](crate::DEVICE_HEADER).
///
/// The memory is for kernels of the context that it was created in, because dropping it only waits for those.
/// So a launch in a stream of another context refuses a `Mapped`. A kernel of another context can take the
/// address of a [`place`](Mapped::place), if the program keeps the memory until that kernel has ended.
///
/// Resetting the context frees the memory of all its `Mapped`, [`Control`](crate::Control) and
/// [`Queue`](crate::Queue) values. After that, they may only be dropped.
pub struct Mapped<T> {
    memory: Memory,
    count: usize,
    values: PhantomData<T>,
}

/// Host memory that is mapped to all devices. It's zeroed, and aligned to 256 bytes.
pub(crate) struct Memory {
    address: NonNull<c_void>,
    context: Arc<CudaContext>,
    /// The context's id at the allocation. A reset gives the context another id.
    id: ContextId,
    /// Tells a simulated driver of accesses, whose order it may choose.
    step: Option<Step>,
}

// SAFETY: the struct only holds an address. The types that access the memory decide which threads may.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn zeroed(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, DriverUnavailable> {
        // The driver refuses an allocation of 0 bytes.
        let bytes = bytes.max(1);
        let address = allocate_host(context, bytes)?;
        let id = ContextId::query(context)?;
        // SAFETY: the memory has this size, and is not used yet.
        unsafe { address.cast::<u8>().write_bytes(0, bytes) };
        Ok(Memory { address, context: context.clone(), id, step: step_of_simulator() })
    }

    /// Returns whether the memory still exists. Resetting its context frees it.
    pub(crate) fn is_there(&self) -> bool {
        ContextId::query(&self.context) == Ok(self.id)
    }

    /// Returns the address at an offset in bytes, on host and device.
    pub(crate) fn at<T>(&self, offset: usize) -> *mut T {
        let place = self.address.as_ptr().wrapping_byte_add(offset);
        if let Some(step) = self.step {
            step(place.addr(), size_of::<T>());
        }
        place.cast()
    }

    /// Returns the context of the memory. Freeing the memory waits only for kernels of this context.
    pub(crate) fn owner(&self) -> CUcontext {
        self.context.cu_ctx()
    }

    /// Returns the address of the memory, as the driver's type.
    pub(crate) fn address(&self) -> CUdeviceptr {
        self.address.as_ptr().expose_provenance() as CUdeviceptr
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        release(&self.context, self.id, self.address);
    }
}

/// Frees the memory of a [`Mapped`], [`Control`](crate::Control) or [`Queue`](crate::Queue). Freeing waits
/// for running kernels, so it's delayed until no resident kernel is left.
fn release(context: &Arc<CudaContext>, id: ContextId, address: NonNull<c_void>) {
    /// The address of memory that is no longer used.
    struct Unused(NonNull<c_void>);
    // SAFETY: any thread may free the memory.
    unsafe impl Send for Unused {}
    let (context, memory) = (context.clone(), Unused(address));
    sections::free(None, move || {
        let Unused(address) = { memory };
        // SAFETY: the only caller of `release` drops memory that was allocated in the context with this id.
        unsafe { free_host(&context, id, address) }
    });
}

impl<T> Mapped<T> {
    fn allocate(context: &Arc<CudaContext>, count: usize) -> Result<Self, DriverUnavailable> {
        const { assert!(align_of::<T>() <= 256) };
        // A size that overflows becomes the largest number, which the driver refuses.
        let bytes = count.saturating_mul(size_of::<T>());
        Ok(Mapped { memory: Memory::zeroed(context, bytes)?, count, values: PhantomData })
    }
}

impl<T: KernelParam> Mapped<T> {
    /// Allocates memory for these values, and copies them there. Allocating doesn't wait for running kernels.
    /// Dropping the memory does, except for resident kernels in a [`Section`](crate::Section): then the
    /// memory is freed later.
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

    /// Returns the number of values.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Copies a value.
    ///
    /// # Panics
    ///
    /// The index is out of range.
    pub fn read(&self, index: usize) -> T {
        // SAFETY: `new` has written the value. The host can't write now, because writing takes `&mut self`.
        // The device can, but only valid values, by the contract of launches. Then each byte belongs to the
        // old or to the new value, and any mixture of two values of a `KernelParam` is valid.
        unsafe { self.place(index).read_volatile() }
    }

    /// Replaces a value.
    ///
    /// # Panics
    ///
    /// The index is out of range.
    pub fn write(&mut self, index: usize, value: T) {
        // SAFETY: the memory exists, and because of `&mut self` no other thread of the host accesses it.
        unsafe { self.place(index).write_volatile(value) }
    }

    /// Returns the address of a value, on host and device.
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
                /// Allocates this many words, all 0. Allocating doesn't wait for running kernels. Dropping
                /// the memory does, except for resident kernels in a [`Section`](crate::Section): then the
                /// memory is freed later.
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
                    // SAFETY: the memory has room for this many words, was zeroed, and exists as long as
                    // `self`, unless the program resets the context, by an `unsafe` call. The device accesses
                    // aligned words of this size as a whole.
                    unsafe { slice::from_raw_parts(self.memory.at(0), self.count) }
                }
            }

            // Hides these implementations from the lists in compiler errors.
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
