//! The driver's arguments, each made from a parameter of a generated `launch`.

use std::ffi::c_void;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};

use crate::address::PointerTo;
use crate::launch::Launch;

/// The address of a slice, its number of elements, and the guard that tracks its use. Kernels whose slices are a single
/// parameter take address and length as they lie here.
#[repr(C)]
pub struct Tracked<'a> {
    address: CUdeviceptr,
    len: u64,
    _guard: SyncOnDrop<'a>,
}

impl Tracked<'_> {
    /// No memory, whose use nothing tracks.
    pub(crate) const NULL: Self = Tracked { address: 0, len: 0, _guard: SyncOnDrop::Record(None) };
}

/// A value is passed as it is.
#[inline]
pub fn value<T>(value: T, _: &Launch<'_>) -> T {
    value
}

/// A slice that the kernel reads.
#[inline]
pub fn slice<'a, T>(slice: &'a impl DevicePtr<T>, stream: &'a CudaStream) -> Tracked<'a> {
    let len = slice.len() as u64;
    let (address, _guard) = slice.device_ptr(stream);
    Tracked { address, len, _guard }
}

/// A slice that the kernel may write.
#[inline]
pub fn slice_mut<'a, T>(slice: &'a mut impl DevicePtrMut<T>, stream: &'a CudaStream) -> Tracked<'a> {
    let len = slice.len() as u64;
    let (address, _guard) = slice.device_ptr_mut(stream);
    Tracked { address, len, _guard }
}

/// A pointer: its address.
#[inline]
pub fn pointer<T>(pointer: impl PointerTo<T>, launch: &Launch<'_>) -> CUdeviceptr {
    launch.uses(pointer.owner());
    pointer.address()
}

/// An argument as the driver takes it, which only reads what it points to.
#[inline]
pub const fn argument<T>(value: &T) -> *mut c_void {
    (&raw const *value).cast_mut().cast()
}

/// The length of a slice as the driver takes it: an argument of its own, behind the address.
#[inline]
pub const fn length(slice: &Tracked<'_>) -> *mut c_void {
    argument(&slice.len)
}
