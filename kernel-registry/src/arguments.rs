//! What can be passed for a parameter of each kind.
//!
//! | parameter | argument |
//! |---|---|
//! | `&[T]` | a reference to a `CudaSlice<T>`, a `CudaView<T>` or another `DevicePtr<T>` of cudarc |
//! | `&mut [T]` | a mutable reference to a `CudaSlice<T>`, a `CudaViewMut<T>` or another `DevicePtrMut<T>` |
//! | `*const T` | any [`PointerTo<T>`]: raw pointers that are valid on the device, and cudarc's `CUdeviceptr` |
//! | `*mut T` | any [`PointerToMut<T>`] |
//! | anything else | the value |
//!
//! cudarc keeps track of the streams that use a slice, as with its own launches. Of pointers nobody keeps
//! track, which is what a kernel that stays for long needs: cudarc would wait for it before it frees a slice.

use cudarc::driver::sys::CUdeviceptr;

/// What can be passed for `*const T`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an address on the device of `{T}`",
    label = "neither a raw pointer nor cudarc's `CUdeviceptr`",
    note = "a slice of cudarc's is for a parameter that is declared as `&[T]` or `&mut [T]`; its address is `slice.device_ptr(&stream).0`"
)]
pub trait PointerTo<T> {
    /// The address on the device.
    fn address(self) -> CUdeviceptr;
}

/// What can be passed for `*mut T`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an address on the device of `{T}` that can be written",
    label = "neither a raw pointer nor cudarc's `CUdeviceptr`",
    note = "a slice of cudarc's is for a parameter that is declared as `&[T]` or `&mut [T]`; its address is `slice.device_ptr_mut(&stream).0`"
)]
pub trait PointerToMut<T>: PointerTo<T> {}

impl<T> PointerTo<T> for *const T {
    #[inline]
    fn address(self) -> CUdeviceptr {
        self.expose_provenance() as CUdeviceptr
    }
}

impl<T> PointerTo<T> for *mut T {
    #[inline]
    fn address(self) -> CUdeviceptr {
        self.expose_provenance() as CUdeviceptr
    }
}

impl<T> PointerToMut<T> for *mut T {}

/// An address as the driver writes it. It has no type, so it stands for any.
impl<T> PointerTo<T> for CUdeviceptr {
    #[inline]
    fn address(self) -> CUdeviceptr {
        self
    }
}

impl<T> PointerToMut<T> for CUdeviceptr {}
