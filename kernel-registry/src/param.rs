//! Which Rust types a kernel can take.

/// A type that can be handed to a kernel by value, or be an element of device memory.
///
/// # Safety
///
/// The type has the same size, alignment and meaning in CUDA, every bit of it is initialised
/// wherever the kernel reads it, and it holds nothing that only the host can follow: no references, no
/// pointers into host memory.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be handed to a kernel",
    label = "not a `KernelParam`",
    note = "kernels take numbers, `bool`, device pointers, and `#[repr(C)]` structs of these that implement `KernelParam`"
)]
pub unsafe trait KernelParam: Copy + 'static {}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(
            // SAFETY: CUDA has the same number type, of this size, alignment and representation.
            unsafe impl KernelParam for $number {}
        )*
    };
}

numbers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64, bool);

// SAFETY: an address on the device is 64 bits wide, as on every host that CUDA supports, and the
// host can only pass it on.
unsafe impl<T: 'static> KernelParam for *const T {}

// SAFETY: as for `*const T`.
unsafe impl<T: 'static> KernelParam for *mut T {}

// SAFETY: the elements lie one after the other in both languages. CUDA takes no array by value,
// which the macro refuses, but it takes structs that contain one.
unsafe impl<T: KernelParam, const N: usize> KernelParam for [T; N] {}
