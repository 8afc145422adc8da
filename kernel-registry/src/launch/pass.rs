//! Converts the parameters of a generated `launch` into arguments for the driver.

use std::ffi::c_void;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};

use super::Launch;
use crate::address::PointerTo;

/// The address of a slice, its number of elements, and the guard that tracks the slice's use. A kernel that takes a slice as a
/// single parameter of 16 bytes reads the first two fields as they are.
#[repr(C)]
pub struct Tracked<'a> {
    address: CUdeviceptr,
    len: u64,
    _guard: SyncOnDrop<'a>,
}

impl Tracked<'_> {
    /// The argument for `None`: a null pointer, no elements, and a guard that tracks nothing.
    pub(crate) const NULL: Self = Tracked { address: 0, len: 0, _guard: SyncOnDrop::Record(None) };
}

/// Returns the value unchanged. Generated code converts every parameter, also those that need no conversion.
#[inline]
pub fn value<T>(value: T, _: &Launch<'_>) -> T {
    value
}

/// Converts a slice that the kernel only reads.
#[inline]
pub fn slice<'a, T>(slice: &'a impl DevicePtr<T>, stream: &'a CudaStream) -> Tracked<'a> {
    let len = slice.len() as u64;
    let (address, _guard) = slice.device_ptr(stream);
    Tracked { address, len, _guard }
}

/// Converts a slice that the kernel may write.
#[inline]
pub fn slice_mut<'a, T>(slice: &'a mut impl DevicePtrMut<T>, stream: &'a CudaStream) -> Tracked<'a> {
    let len = slice.len() as u64;
    let (address, _guard) = slice.device_ptr_mut(stream);
    Tracked { address, len, _guard }
}

/// Converts a pointer to its address, and records the context of its memory in the launch.
#[inline]
pub fn pointer<T>(pointer: impl PointerTo<T>, launch: &Launch<'_>) -> CUdeviceptr {
    launch.uses(pointer.owner());
    pointer.address()
}

/// Returns a pointer to an argument for the driver, which takes a mutable pointer, but only reads through it.
#[inline]
pub const fn argument<T>(value: &T) -> *mut c_void {
    (&raw const *value).cast_mut().cast()
}

/// Returns a pointer to the length of a slice, for kernels that take the length as a separate argument after the address.
#[inline]
pub const fn length(slice: &Tracked<'_>) -> *mut c_void {
    argument(&slice.len)
}
