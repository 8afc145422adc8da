//! Rust types for types of C++ and CUDA that need no definition.

use kernel_registry_format::RustType;
use kernel_registry_image::Scalar;

/// The element type of a pointer to an unknown type.
pub(super) const VOID: &str = "core::ffi::c_void";

/// Returns the Rust type for a number type of C++.
pub(super) fn number(scalar: Scalar) -> &'static str {
    // `char` accepts `i8` and `u8`. `i8` comes first, because `char` is signed on x86.
    const NUMBERS: [&str; 11] = ["bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"];
    let accepts = |name: &&str| RustType::named(name).is_some_and(|number| scalar.accepts(number));
    NUMBERS.into_iter().find(accepts).unwrap_or("u8")
}

/// Returns the type of the crate `half` for a sixteen-bit floating-point type of CUDA.
pub(super) fn half(name: &str) -> Option<String> {
    match name {
        "__half" => Some("half::f16".to_owned()),
        "__nv_bfloat16" => Some("half::bf16".to_owned()),
        _ => None,
    }
}

/// Returns the ready-made Rust type for a type that CUDA's headers define.
pub(super) fn ready(name: &str) -> Option<String> {
    let ready = match name {
        "__half" | "__nv_bfloat16" => return half(name),
        "__half2" => "Half2".to_owned(),
        "__nv_bfloat162" => "Bfloat162".to_owned(),
        "__nv_fp8_e4m3" => "E4m3".to_owned(),
        "__nv_fp8_e5m2" => "E5m2".to_owned(),
        "CUtensorMap_st" => "TensorMap".to_owned(),
        "dim3" => "Uint3".to_owned(),
        _ => vector(name)?,
    };
    Some(format!("kernel_registry::types::{ready}"))
}

/// Returns the type for one of CUDA's vectors: `Float4` for `float4`.
fn vector(name: &str) -> Option<String> {
    let plain = name.strip_suffix("_16a").unwrap_or(name);
    let (component, count) = plain.split_at_checked(plain.len().checked_sub(1)?)?;
    let component = match component {
        "longlong" => "Long".to_owned(),
        "ulonglong" => "Ulong".to_owned(),
        "char" | "uchar" | "short" | "ushort" | "int" | "uint" | "long" | "ulong" | "float" | "double" => {
            component[..1].to_ascii_uppercase() + &component[1..]
        }
        _ => return None,
    };
    matches!(count, "2" | "3" | "4").then(|| format!("{component}{count}"))
}
