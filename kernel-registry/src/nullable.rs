//! Optional slices as arguments of kernels.

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};

use crate::launch::pass::{self, Tracked};

/// The types of arguments for a parameter `Option<&[T]>`: an `Option<&CudaSlice<T>>`, or a reference to any slice or view of cudarc.
/// For `None` the kernel gets a null pointer. cudarc tracks the use of the slices.
///
/// ```no_run
/// # mod demo {
/// # use kernel_registry::gpu_kernel;
/// /// y = a*x + y, or a + y without x.
/// #[gpu_kernel(image = "tests/images/saxpy.ptx", block = 256)]
/// pub unsafe fn saxpy(n: u32, a: f32, x: Option<&[f32]>, y: &mut [f32]);
/// # }
/// # use demo::saxpy;
/// use kernel_registry::Nullable;
///
/// # fn main() -> Result<(), kernel_registry::MainError> {
/// # let context = kernel_registry::context(0)?;
/// # let stream = context.new_stream()?;
/// let x = stream.clone_htod(&[1.0_f32; 100])?;
/// let mut y = stream.clone_htod(&[2.0_f32; 100])?;
/// let first_half = Some(x.slice(..50));
/// // SAFETY: the vectors have as many elements.
/// unsafe {
///     saxpy::launch(&stream, saxpy::over(100), 100, 0.5, None, &mut y)?;
///     saxpy::launch(&stream, saxpy::over(100), 100, 0.5, Some(&x), &mut y)?;
///     saxpy::launch(&stream, saxpy::over(50), 50, 0.5, &x.slice(50..), &mut y)?;
///     saxpy::launch(&stream, saxpy::over(50), 50, 0.5, Nullable(first_half.as_ref()), &mut y)?;
/// }
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an optional slice of `{T}` on the device",
    label = "neither an `Option<&CudaSlice<{T}>>` nor a reference to a slice or view of `{T}`",
    note = "the compiler has to know the type of a plain `None`, so views go as `&view`, and as `Nullable(option)` if they are in an `Option<&_>`"
)]
pub trait SliceOrNull<T>: Sealed {
    #[doc(hidden)]
    fn track<'a>(self, stream: &'a CudaStream) -> Tracked<'a>
    where
        Self: 'a;
}

/// The types of arguments for a parameter `Option<&mut [T]>`: the same as for [`SliceOrNull`], with `&mut` instead of `&`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an optional mutable slice of `{T}` on the device",
    label = "neither an `Option<&mut CudaSlice<{T}>>` nor a mutable reference to a slice or view of `{T}`",
    note = "the compiler has to know the type of a plain `None`, so views go as `&mut view`, and as `Nullable(option)` if they are in an `Option<&mut _>`"
)]
pub trait SliceOrNullMut<T>: Sealed {
    #[doc(hidden)]
    fn track_mut<'a>(self, stream: &'a CudaStream) -> Tracked<'a>
    where
        Self: 'a;
}

/// An optional reference to any slice or view of cudarc, as an argument for `Option<&[T]>` and `Option<&mut [T]>`:
/// `Nullable(view.as_ref())`. An `Option<&CudaSlice<T>>` needs no such wrapper.
#[derive(Clone, Copy, Debug)]
pub struct Nullable<S>(pub Option<S>);

/// Keeps other crates from implementing [`SliceOrNull`].
pub trait Sealed {}

impl<S> Sealed for &S {}
impl<S> Sealed for &mut S {}
impl<S> Sealed for Option<S> {}
impl<S> Sealed for Nullable<S> {}

impl<T, S: DevicePtr<T>> SliceOrNull<T> for &S {
    #[inline]
    fn track<'a>(self, stream: &'a CudaStream) -> Tracked<'a>
    where
        Self: 'a,
    {
        pass::slice(self, stream)
    }
}

impl<T, S: DevicePtr<T>> SliceOrNull<T> for Nullable<&S> {
    #[inline]
    fn track<'a>(self, stream: &'a CudaStream) -> Tracked<'a>
    where
        Self: 'a,
    {
        self.0.map_or(Tracked::NULL, |slice| pass::slice(slice, stream))
    }
}

// This is the only implementation for an `Option`, so that the compiler knows the type of `None`.
impl<T> SliceOrNull<T> for Option<&CudaSlice<T>> {
    #[inline]
    fn track<'a>(self, stream: &'a CudaStream) -> Tracked<'a>
    where
        Self: 'a,
    {
        Nullable(self).track(stream)
    }
}

impl<T, S: DevicePtrMut<T>> SliceOrNullMut<T> for &mut S {
    #[inline]
    fn track_mut<'a>(self, stream: &'a CudaStream) -> Tracked<'a>
    where
        Self: 'a,
    {
        pass::slice_mut(self, stream)
    }
}

impl<T, S: DevicePtrMut<T>> SliceOrNullMut<T> for Nullable<&mut S> {
    #[inline]
    fn track_mut<'a>(self, stream: &'a CudaStream) -> Tracked<'a>
    where
        Self: 'a,
    {
        self.0.map_or(Tracked::NULL, |slice| pass::slice_mut(slice, stream))
    }
}

// This is the only implementation for an `Option`, as above.
impl<T> SliceOrNullMut<T> for Option<&mut CudaSlice<T>> {
    #[inline]
    fn track_mut<'a>(self, stream: &'a CudaStream) -> Tracked<'a>
    where
        Self: 'a,
    {
        Nullable(self).track_mut(stream)
    }
}
