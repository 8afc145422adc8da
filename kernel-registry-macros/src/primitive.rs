//! Rust's own number types, which the macro knows by their names.
//!
//! Nobody calls another type `u32`, so what can be said of these is said by the macro: all of it at once, and
//! without work for the compiler. Aliases and structs are left to the compiler.

use kernel_registry_image::Scalar;
use syn::Type;

#[derive(Clone, Copy)]
pub(crate) struct Primitive {
    name: &'static str,
    /// Its size, which on CUDA's hosts is its alignment too.
    pub(crate) size: u32,
}

const PRIMITIVES: [(&str, u32); 13] = [
    ("bool", 1),
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("u64", 8),
    ("usize", 8),
    ("i8", 1),
    ("i16", 2),
    ("i32", 4),
    ("i64", 8),
    ("isize", 8),
    ("f32", 4),
    ("f64", 8),
];

impl Primitive {
    /// The primitive that this type is by its name.
    pub(crate) fn of(ty: &Type) -> Option<Self> {
        let ident = match ty {
            Type::Path(path) if path.qself.is_none() => path.path.get_ident()?,
            Type::Group(group) => return Self::of(&group.elem),
            _ => return None,
        };
        let (name, size) = PRIMITIVES.into_iter().find(|(name, _)| ident == name)?;
        Some(Primitive { name, size })
    }

    /// Whether it can stand for what C++ calls so. For types that the macro does not know by name,
    /// `kernel_registry::__private::param::scalar` says the same.
    pub(crate) fn meets(self, scalar: Scalar) -> bool {
        let names: &[&str] = match scalar {
            Scalar::Bool => &["bool"],
            Scalar::Char => &["i8", "u8"],
            Scalar::SignedChar => &["i8"],
            Scalar::UnsignedChar => &["u8"],
            Scalar::Short => &["i16"],
            Scalar::UnsignedShort => &["u16"],
            Scalar::Int => &["i32"],
            Scalar::UnsignedInt => &["u32"],
            Scalar::Long | Scalar::LongLong => &["i64", "isize"],
            Scalar::UnsignedLong | Scalar::UnsignedLongLong => &["u64", "usize"],
            Scalar::Float => &["f32"],
            Scalar::Double => &["f64"],
            _ => return true,
        };
        names.contains(&self.name)
    }
}
