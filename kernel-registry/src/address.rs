//! Device pointers as arguments of kernels.

use std::ptr;

use cudarc::driver::sys::{CUcontext, CUdeviceptr};

/// An untyped device address, as the driver represents it. It can be passed as a pointer to any type:
///
/// ```
/// use kernel_registry::{DeviceAddress, PointerTo};
///
/// let address = DeviceAddress(0x7f00_0000_0000);
/// assert_eq!(PointerTo::<f32>::address(address), 0x7f00_0000_0000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct DeviceAddress(pub CUdeviceptr);

/// Arguments for a parameter `*const T`: raw pointers that are valid on the device, a [`DeviceAddress`], and references to
/// `Mapped` memory, a `Control` and a `Queue`.
///
/// A launch refuses a reference to memory of another context than the stream's, because freeing the memory would not wait for the
/// kernel. It accepts the address of such memory (`Mapped::place`), but then the caller must keep the memory until the kernel has
/// ended.
///
/// cudarc tracks the memory of slices, but not the memory behind a pointer. A resident kernel needs pointers, because cudarc frees a
/// slice only after the kernel has ended.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device pointer to `{T}`",
    label = "neither a raw pointer nor a `DeviceAddress`",
    note = "a slice of cudarc is for a parameter that is declared as `&[T]` or `&mut [T]`; its address is `DeviceAddress(slice.device_ptr(&stream).0)`"
)]
pub trait PointerTo<T>: Sealed {
    /// Returns the address on the device.
    fn address(self) -> CUdeviceptr;
}

/// Arguments for a parameter `*mut T`: raw pointers that are valid on the device, a [`DeviceAddress`], and references to
/// `Mapped` memory, a `Control` and a `Queue`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device pointer to `{T}` that a kernel can write through",
    label = "neither a raw pointer nor a `DeviceAddress`",
    note = "a slice of cudarc is for a parameter that is declared as `&[T]` or `&mut [T]`; its address is `DeviceAddress(slice.device_ptr_mut(&stream).0)`"
)]
pub trait PointerToMut<T>: PointerTo<T> {}

/// Keeps other crates from implementing [`PointerTo`].
pub trait Sealed {
    /// Returns the context that the memory belongs to, if dropping the memory waits only for that context's kernels. Otherwise
    /// returns null.
    #[inline]
    fn owner(&self) -> CUcontext {
        ptr::null_mut()
    }
}

impl<T> Sealed for *const T {}
impl<T> Sealed for *mut T {}
impl Sealed for DeviceAddress {}

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

impl<T> PointerTo<T> for DeviceAddress {
    #[inline]
    fn address(self) -> CUdeviceptr {
        self.0
    }
}

impl<T> PointerToMut<T> for DeviceAddress {}
