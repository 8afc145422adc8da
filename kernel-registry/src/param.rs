//! `KernelParam`, the trait of Rust types that a kernel can take.

pub use kernel_registry_format::RustType;

/// A type that can be passed to a kernel by value, or be an element of device memory.
///
/// Structs derive this trait:
///
/// ```
/// use kernel_registry::KernelParam;
///
/// /// `Step` in the CUDA source.
/// #[derive(Clone, Copy, KernelParam)]
/// #[repr(C)]
/// struct Step {
///     dt: f32,
///     damping: f32,
///     n: u32,
/// }
/// ```
///
/// The struct needs `#[repr(C)]`, or `#[repr(transparent)]` around a single field, and fields that are `KernelParam` themselves.
/// Deriving also implements cudarc's `DeviceRepr`, so that slices can hold the struct. If a kernel takes a struct, the struct's size
/// and alignment are compared with the image. The struct's fields are compared with the CUDA source, if the source defines the struct:
/// number types by size and by whether they are floating point, and fields of the same name by their offsets.
///
/// # Safety
///
/// The type has the same size, alignment and meaning in CUDA. Every bit of a value that the kernel reads is initialised. The type holds
/// nothing that only the host can use: no references, no pointers into host memory.
///
/// Any mixture of the bytes of two values is a valid value, because `Mapped::read` may see a value that a kernel has written in part.
/// This holds for numbers, `bool`, pointers, and arrays and structs of these, but not for an `enum` of several bytes. Not every bit
/// pattern has to be valid, because kernels write [valid values only](crate#the-contract-of-a-launch).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be handed to a kernel",
    label = "not a `KernelParam`",
    note = "kernels take numbers, `bool`, device pointers, `kernel_registry::types`, and `#[repr(C)]` structs of these with `#[derive(KernelParam)]`"
)]
#[cfg_attr(
    not(feature = "half"),
    diagnostic::on_unimplemented(
        note = "`half::f16` and `half::bf16` need the feature `half` of kernel-registry: `cargo add kernel-registry --features half`"
    )
)]
pub unsafe trait KernelParam: Copy + 'static {
    /// The kind of the type, for the comparison with the CUDA type. Structs are compared by size and alignment, structs of
    /// [`types`](crate::types) also by name.
    #[doc(hidden)]
    const RUST: RustType = RustType::Struct;

    /// The fields of a struct that derives this trait. Otherwise empty.
    #[doc(hidden)]
    const FIELDS: &'static [Field] = &[];
}

/// Returns the size and alignment of a type.
pub const fn layout<T>() -> [u32; 2] {
    // A larger size is clamped: no kernel takes a parameter of 4 GiB.
    let size = if size_of::<T>() < u32::MAX as usize { size_of::<T>() as u32 } else { u32::MAX };
    [size, align_of::<T>() as u32]
}

/// A field of a struct.
pub struct Field {
    pub(crate) name: &'static str,
    /// The field's type as the declaration spells it.
    pub(crate) spelled: &'static str,
    pub(crate) offset: u32,
    pub(crate) size: u32,
    pub(crate) rust: RustType,
}

macro_rules! numbers {
    ($($number:ty = $name:ident),* $(,)?) => {
        $(
            // SAFETY: CUDA has the same number type, with this size, alignment and representation. Any bits are a valid number, and
            // `bool` is a single byte.
            unsafe impl KernelParam for $number {
                const RUST: RustType = RustType::$name;
            }
        )*
    };
}

numbers! {
    bool = Bool,
    u8 = U8, u16 = U16, u32 = U32, u64 = U64,
    i8 = I8, i16 = I16, i32 = I32, i64 = I64,
    f32 = F32, f64 = F64,
}

// Every host that CUDA supports has 64-bit addresses.
#[cfg(target_pointer_width = "64")]
numbers!(usize = U64, isize = I64);

#[cfg(feature = "half")]
numbers!(half::f16 = F16, half::bf16 = Bf16);

// SAFETY: an address on the device is 64 bits wide, as on every host that CUDA supports. The host only passes the address on, and any
// bits are a valid address.
unsafe impl<T: 'static> KernelParam for *const T {
    const RUST: RustType = RustType::Pointer;
}

// SAFETY: as for `*const T`.
unsafe impl<T: 'static> KernelParam for *mut T {
    const RUST: RustType = RustType::Pointer;
}

// SAFETY: the elements are contiguous in both languages. CUDA takes no array by value, and the macro refuses arrays as parameters, but
// structs may contain arrays.
unsafe impl<T: KernelParam, const N: usize> KernelParam for [T; N] {}
