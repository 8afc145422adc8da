//! Accesses global memory: a trait that the caller implements, and checked atomic accesses.
//!
//! This is the only file with `unsafe`. All accesses are atomic, because the host and a kernel may poll words
//! that the other side writes.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::op::Update;
use crate::types::Scalar;

/// The services that a kernel needs from its caller: global memory, the heap, an output for printf, and
/// clocks.
///
/// Kernels compute with the addresses of global memory. These addresses are usually addresses of the process.
///
/// # Safety
///
/// The pointer that [`Memory::check`] returns must be valid for atomic reads and writes of `size` bytes until
/// the [`Grid::step`](crate::Grid::step) that called it returns. The pointer must be aligned like the
/// address, up to 8 bytes.
pub unsafe trait Memory {
    /// Checks that a kernel may access these bytes, and returns a pointer to them.
    ///
    /// # Errors
    ///
    /// Fails if the access is not allowed.
    fn check(&self, address: u64, size: u64) -> Result<*mut u8, MemoryFault>;

    /// Implements `malloc` for kernels. Returns an address, or 0 if no memory is left.
    fn malloc(&self, size: u64) -> u64;

    /// Implements `free` for kernels.
    ///
    /// # Errors
    ///
    /// Fails if `malloc` did not return the address, or if the memory was freed before.
    fn free(&self, address: u64) -> Result<(), MemoryFault>;

    /// Prints the formatted text of a `printf` call.
    fn print(&self, text: &str);

    /// Returns the nanoseconds since some fixed moment, for `%globaltimer`.
    fn now(&self) -> u64;

    /// Returns the clock cycles since that moment, for `%clock64`. By default there is one cycle in each
    /// nanosecond.
    fn cycles(&self) -> u64 {
        self.now()
    }
}

/// The reason why memory cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryFault {
    /// The memory was never allocated, was freed, or is too small.
    Unallocated,
    /// The memory may only be read.
    ReadOnly,
    /// The memory is on another device, and the kernel's device has no access to it.
    Peer {
        /// The device with the memory.
        owner: u32,
        /// The device that the kernel runs on.
        device: u32,
    },
}

impl fmt::Display for MemoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unallocated => "which is not allocated; compare the index with the length",
            Self::ReadOnly => "which may only be read; write elsewhere",
            Self::Peer { owner, device } => {
                return write!(
                    f,
                    "which is memory of device {owner}, and device {device} has no access to it; copy it to device {device}, \
                     or launch the kernel on device {owner}"
                );
            }
        })
    }
}

/// A range of memory that a kernel may access, as [`Memory::check`] has confirmed.
pub(crate) struct Span {
    start: u64,
    size: u64,
    pointer: *mut u8,
}

macro_rules! by_size {
    ($size:expr, $atomic:ident, $T:ident => $value:expr) => {
        match $size {
            1 => {
                type $atomic = AtomicU8;
                type $T = u8;
                $value
            }
            2 => {
                type $atomic = AtomicU16;
                type $T = u16;
                $value
            }
            4 => {
                type $atomic = AtomicU32;
                type $T = u32;
                $value
            }
            _ => {
                type $atomic = AtomicU64;
                type $T = u64;
                $value
            }
        }
    };
}

impl Span {
    pub(crate) fn new(memory: &dyn Memory, start: u64, size: u64) -> Result<Self, MemoryFault> {
        let pointer = memory.check(start, size)?;
        Ok(Self { start, size, pointer })
    }

    /// Returns a pointer for an access of `size` bytes. The access must be in the span and aligned.
    #[inline(always)]
    fn place(&self, address: u64, size: u64) -> *mut u8 {
        let offset = address.wrapping_sub(self.start);
        assert!(offset <= self.size && size <= self.size - offset, "an access outside of what was checked");
        let place = self.pointer.wrapping_add(offset as usize);
        assert!(place as u64 & (size - 1) == 0, "memory that is not aligned as its address is");
        place
    }

    #[inline(always)]
    pub(crate) fn load(&self, address: u64, size: u64) -> u64 {
        let place = self.place(address, size);
        // SAFETY: `place` is aligned, and within the range that the implementor of `Memory` promised to be
        // valid for atomic accesses.
        by_size!(size, Atomic, T => unsafe { Atomic::from_ptr(place.cast::<T>()) }.load(Ordering::Acquire).bits())
    }

    /// Stores a value. Returns whether this changed the memory.
    #[inline(always)]
    pub(crate) fn store(&self, address: u64, size: u64, value: u64) -> bool {
        let place = self.place(address, size);
        by_size!(size, Atomic, T => {
            // SAFETY: as in `load`.
            let atomic = unsafe { Atomic::from_ptr(place.cast::<T>()) };
            let changed = atomic.load(Ordering::Relaxed) != value as T;
            atomic.store(value as T, Ordering::Release);
            changed
        })
    }

    /// Updates a value atomically. Returns the old value, and whether the memory changed.
    pub(crate) fn update(&self, address: u64, size: u64, update: Update, a: u64, b: u64) -> (u64, bool) {
        let place = self.place(address, size);
        by_size!(size, Atomic, T => {
            // SAFETY: as in `load`.
            let atomic = unsafe { Atomic::from_ptr(place.cast::<T>()) };
            let new = |old: T| update(old.bits(), a, b) as T;
            let old = atomic
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(new(old)))
                .unwrap_or_else(|old| old);
            (old.bits(), new(old) != old)
        })
    }
}
