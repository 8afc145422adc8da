//! Defines the number types of C++ and Rust, and which Rust types match which C++ types.

use core::fmt;

/// A built-in type of C++, with the size that it has in device code for 64-bit Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // The names are those of C++.
pub enum Scalar {
    Void,
    Bool,
    Char,
    SignedChar,
    UnsignedChar,
    Short,
    UnsignedShort,
    Int,
    UnsignedInt,
    Long,
    UnsignedLong,
    LongLong,
    UnsignedLongLong,
    Float,
    Double,
}

/// Every scalar with its spelling and its size in bytes.
const SCALARS: [(Scalar, &str, u32); 15] = [
    (Scalar::Void, "void", 0),
    (Scalar::Bool, "bool", 1),
    (Scalar::Char, "char", 1),
    (Scalar::SignedChar, "signed char", 1),
    (Scalar::UnsignedChar, "unsigned char", 1),
    (Scalar::Short, "short", 2),
    (Scalar::UnsignedShort, "unsigned short", 2),
    (Scalar::Int, "int", 4),
    (Scalar::UnsignedInt, "unsigned int", 4),
    (Scalar::Long, "long", 8),
    (Scalar::UnsignedLong, "unsigned long", 8),
    (Scalar::LongLong, "long long", 8),
    (Scalar::UnsignedLongLong, "unsigned long long", 8),
    (Scalar::Float, "float", 4),
    (Scalar::Double, "double", 8),
];

/// The kind of a Rust type, to compare a declared parameter with the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // The names are those of Rust.
pub enum RustType {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    Bf16,
    F32,
    F64,
    /// A device pointer.
    Pointer,
    /// A struct or array.
    Struct,
    /// A type that CUDA's headers define, with its names there, such as `float4`.
    Cuda(&'static [&'static str]),
}

impl Scalar {
    /// Returns the type that C++ spells like this.
    pub fn named(name: &str) -> Option<Scalar> {
        SCALARS.iter().find(|(_, spelled, _)| *spelled == name).map(|(scalar, ..)| *scalar)
    }

    /// Returns the type's spelling in C++.
    pub const fn name(self) -> &'static str {
        SCALARS[self as usize].1
    }

    /// Returns the type's size in bytes, which is also its alignment. Returns `None` for `void`.
    pub const fn size(self) -> Option<u32> {
        match SCALARS[self as usize].2 {
            0 => None,
            size => Some(size),
        }
    }

    /// Returns whether a Rust type matches this C++ type. Any type matches `void`, which only occurs as a
    /// pointee.
    pub const fn accepts(self, rust: RustType) -> bool {
        match self {
            Scalar::Void => true,
            Scalar::Bool => matches!(rust, RustType::Bool),
            // Whether `char` has a sign depends on the platform.
            Scalar::Char => matches!(rust, RustType::I8 | RustType::U8),
            Scalar::SignedChar => matches!(rust, RustType::I8),
            Scalar::UnsignedChar => matches!(rust, RustType::U8),
            Scalar::Short => matches!(rust, RustType::I16),
            Scalar::UnsignedShort => matches!(rust, RustType::U16),
            Scalar::Int => matches!(rust, RustType::I32),
            Scalar::UnsignedInt => matches!(rust, RustType::U32),
            Scalar::Long | Scalar::LongLong => matches!(rust, RustType::I64),
            Scalar::UnsignedLong | Scalar::UnsignedLongLong => matches!(rust, RustType::U64),
            Scalar::Float => matches!(rust, RustType::F32),
            Scalar::Double => matches!(rust, RustType::F64),
        }
    }
}

impl RustType {
    /// Returns the number type with this name. Assumes that a type called `u32` is Rust's `u32`.
    pub fn named(name: &str) -> Option<RustType> {
        Some(match name {
            "bool" => RustType::Bool,
            "u8" => RustType::U8,
            "u16" => RustType::U16,
            "u32" => RustType::U32,
            // Every host that CUDA supports has 64-bit addresses.
            "u64" | "usize" => RustType::U64,
            "i8" => RustType::I8,
            "i16" => RustType::I16,
            "i32" => RustType::I32,
            "i64" | "isize" => RustType::I64,
            "f32" => RustType::F32,
            "f64" => RustType::F64,
            _ => return None,
        })
    }

    /// Returns the type's size in bytes, which is also its alignment. Returns `None` for a struct, whose size
    /// is not known.
    pub const fn size(self) -> Option<u32> {
        Some(match self {
            RustType::Bool | RustType::U8 | RustType::I8 => 1,
            RustType::U16 | RustType::I16 | RustType::F16 | RustType::Bf16 => 2,
            RustType::U32 | RustType::I32 | RustType::F32 => 4,
            RustType::U64 | RustType::I64 | RustType::F64 | RustType::Pointer => 8,
            RustType::Struct | RustType::Cuda(_) => return None,
        })
    }

    /// Returns the names that CUDA's headers have for this type, such as `__half` for `half::f16`. Empty if
    /// they define no such type.
    pub const fn cuda_names(self) -> &'static [&'static str] {
        match self {
            RustType::F16 => &["__half"],
            RustType::Bf16 => &["__nv_bfloat16"],
            RustType::Cuda(names) => names,
            _ => &[],
        }
    }
}

/// Returns whether a Rust type with the first size and alignment matches a CUDA type with the second. An
/// alignment of 0 is unknown.
///
/// A Rust type of 128 bytes may be aligned to 64 where CUDA aligns to 128, because `CUtensorMap` is aligned
/// to 64 up to CUDA 12, and to 128 since CUDA 13.
pub const fn same_layout([size, align]: [u32; 2], [cuda_size, cuda_align]: [u32; 2]) -> bool {
    let known = cuda_align != 0 && !(size == 128 && align == 64 && cuda_align == 128);
    size == cuda_size && (!known || align == cuda_align)
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_scalars_is_in_the_order_of_the_variants() {
        for (index, (scalar, name, _)) in SCALARS.into_iter().enumerate() {
            assert_eq!(scalar as usize, index);
            assert_eq!(Scalar::named(name), Some(scalar));
        }
    }

    #[test]
    fn a_scalar_accepts_types_of_its_size() {
        const NAMES: [&str; 13] =
            ["bool", "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64"];
        for (scalar, name, _) in SCALARS.into_iter().skip(1) {
            let mut accepted =
                NAMES.into_iter().filter_map(RustType::named).filter(|rust| scalar.accepts(*rust));
            let first = accepted.next().unwrap_or_else(|| panic!("{name} accepts a type"));
            assert!(accepted.chain([first]).all(|rust| rust.size() == scalar.size()), "{name}");
        }
    }
}
