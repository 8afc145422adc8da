//! The types of CUDA's headers that kernels take and that Rust lacks: vectors, 8-bit floating point, tensor maps.
//!
//! Each type has CUDA's size and alignment, and matches only the CUDA type of its name: where the image has a `float4`, [`Float4`]
//! compiles, but [`Int4`] does not, although it is as large. Your own structs of the same size and alignment compile, too.
//!
//! ```
//! use kernel_registry::types::Float4;
//!
//! let v = Float4::new(1.0, 2.0, 3.0, 4.0);
//! assert_eq!(v, Float4::from([1.0, 2.0, 3.0, 4.0]));
//! assert_eq!(<[f32; 4]>::from(v)[3], v.w);
//! assert_eq!((size_of::<Float4>(), align_of::<Float4>()), (16, 16));
//! ```

use cudarc::driver::{DeviceRepr, ValidAsZeroBits};

use crate::{KernelParam, RustType};

/// Implements `KernelParam` and cudarc's traits for a type, with the type's names in CUDA and its layout there.
macro_rules! cuda_type {
    ($name:ident, $size:literal, $align:literal, [$($cuda:literal),+]) => {
        // SAFETY: CUDA has the same type, with this size and alignment.
        #[diagnostic::do_not_recommend]
        unsafe impl KernelParam for $name {
            const RUST: RustType = RustType::Cuda(&[$($cuda),+]);
        }

        // SAFETY: as above.
        unsafe impl DeviceRepr for $name {}

        // SAFETY: the type consists of numbers.
        unsafe impl ValidAsZeroBits for $name {}

        const _: () = assert!(size_of::<$name>() == $size && align_of::<$name>() == $align);
    };
}

macro_rules! vectors {
    ($($name:ident($($field:ident)+): [$component:ty; $count:literal], $size:literal, $align:literal, [$first:literal $(, $cuda:literal)*] $($derive:ident)*;)+) => {
        $(
            #[doc = concat!("CUDA's `", $first, "`", $(" or `", $cuda, "`",)* ".")]
            #[derive(Clone, Copy, Debug, Default, PartialEq, $($derive),*)]
            #[repr(C, align($align))]
            #[expect(missing_docs, reason = "the fields have no meaning of their own")]
            pub struct $name {
                $(pub $field: $component,)+
            }

            impl $name {
                /// Creates a vector from its components.
                pub const fn new($($field: $component),+) -> Self {
                    Self { $($field),+ }
                }
            }

            impl From<[$component; $count]> for $name {
                fn from([$($field),+]: [$component; $count]) -> Self {
                    Self { $($field),+ }
                }
            }

            impl From<$name> for [$component; $count] {
                fn from($name { $($field),+ }: $name) -> Self {
                    [$($field),+]
                }
            }

            cuda_type!($name, $size, $align, [$first $(, $cuda)*]);
        )+
    };
}

// A vector of three components is aligned like an array. Other vectors are aligned to their size, but to 16 bytes at most.
vectors! {
    Char2(x y): [i8; 2], 2, 2, ["char2"] Eq Hash;
    Char3(x y z): [i8; 3], 3, 1, ["char3"] Eq Hash;
    Char4(x y z w): [i8; 4], 4, 4, ["char4"] Eq Hash;
    Uchar2(x y): [u8; 2], 2, 2, ["uchar2"] Eq Hash;
    Uchar3(x y z): [u8; 3], 3, 1, ["uchar3"] Eq Hash;
    Uchar4(x y z w): [u8; 4], 4, 4, ["uchar4"] Eq Hash;
    Short2(x y): [i16; 2], 4, 4, ["short2"] Eq Hash;
    Short3(x y z): [i16; 3], 6, 2, ["short3"] Eq Hash;
    Short4(x y z w): [i16; 4], 8, 8, ["short4"] Eq Hash;
    Ushort2(x y): [u16; 2], 4, 4, ["ushort2"] Eq Hash;
    Ushort3(x y z): [u16; 3], 6, 2, ["ushort3"] Eq Hash;
    Ushort4(x y z w): [u16; 4], 8, 8, ["ushort4"] Eq Hash;
    Int2(x y): [i32; 2], 8, 8, ["int2"] Eq Hash;
    Int3(x y z): [i32; 3], 12, 4, ["int3"] Eq Hash;
    Int4(x y z w): [i32; 4], 16, 16, ["int4"] Eq Hash;
    Uint2(x y): [u32; 2], 8, 8, ["uint2"] Eq Hash;
    Uint3(x y z): [u32; 3], 12, 4, ["uint3", "dim3"] Eq Hash;
    Uint4(x y z w): [u32; 4], 16, 16, ["uint4"] Eq Hash;
    Long2(x y): [i64; 2], 16, 16, ["longlong2", "long2"] Eq Hash;
    Long3(x y z): [i64; 3], 24, 8, ["longlong3", "long3"] Eq Hash;
    Long4(x y z w): [i64; 4], 32, 16, ["longlong4", "long4", "longlong4_16a", "long4_16a"] Eq Hash;
    Ulong2(x y): [u64; 2], 16, 16, ["ulonglong2", "ulong2"] Eq Hash;
    Ulong3(x y z): [u64; 3], 24, 8, ["ulonglong3", "ulong3"] Eq Hash;
    Ulong4(x y z w): [u64; 4], 32, 16, ["ulonglong4", "ulong4", "ulonglong4_16a", "ulong4_16a"] Eq Hash;
    Float2(x y): [f32; 2], 8, 8, ["float2"];
    Float3(x y z): [f32; 3], 12, 4, ["float3"];
    Float4(x y z w): [f32; 4], 16, 16, ["float4"];
    Double2(x y): [f64; 2], 16, 16, ["double2"];
    Double3(x y z): [f64; 3], 24, 8, ["double3"];
    Double4(x y z w): [f64; 4], 32, 16, ["double4", "double4_16a"];
}

#[cfg(feature = "half")]
vectors! {
    Half2(x y): [half::f16; 2], 4, 4, ["__half2"];
    Bfloat162(x y): [half::bf16; 2], 4, 4, ["__nv_bfloat162"];
}

/// CUDA's `__nv_fp8_e4m3`: the bits of a floating-point number with four bits of exponent and three of mantissa.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct E4m3(pub u8);

/// CUDA's `__nv_fp8_e5m2`: the bits of a floating-point number with five bits of exponent and two of mantissa.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct E5m2(pub u8);

/// CUDA's `CUtensorMap`, which `cuTensorMapEncodeTiled` writes, for a parameter `const __grid_constant__ CUtensorMap`. It converts from
/// the field `opaque` of cudarc's `CUtensorMap`.
///
/// CUDA 13 aligns a `CUtensorMap` argument to 128 bytes. This makes no difference to a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub struct TensorMap {
    opaque: [u64; 16],
}

cuda_type!(E4m3, 1, 1, ["__nv_fp8_e4m3"]);
cuda_type!(E5m2, 1, 1, ["__nv_fp8_e5m2"]);
cuda_type!(TensorMap, 128, 64, ["CUtensorMap_st"]);

macro_rules! wrappers {
    ($($name:ident { $field:tt: $inside:ty })+) => {
        $(
            impl From<$inside> for $name {
                fn from(inside: $inside) -> Self {
                    Self { $field: inside }
                }
            }

            impl From<$name> for $inside {
                fn from(outside: $name) -> Self {
                    outside.$field
                }
            }
        )+
    };
}

wrappers! {
    E4m3 { 0: u8 }
    E5m2 { 0: u8 }
    TensorMap { opaque: [u64; 16] }
}
