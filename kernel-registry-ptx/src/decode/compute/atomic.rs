//! Finds the functions by which atomic operations compute the new value from the old.

use crate::decode::compute::float::{Bf16, F16, Float, Pair};
use crate::op::Update;
use crate::types::{How, Rounding, Scalar, Type};

/// Returns the function of `atom`, `red` or `redux`. Some functions differ between global memory and other
/// memory.
pub(crate) fn update(name: &str, kind: Type, global: bool) -> Option<Update> {
    macro_rules! update {
        ($T:ty: |$a:ident, $b:ident, $c:ident| $value:expr) => {
            Some(|a, b, c| {
                let ($a, $b, $c) = (<$T>::from_register(a), <$T>::from_register(b), <$T>::from_register(c));
                let _ = ($a, $c);
                <$T as Scalar>::bits($value)
            })
        };
    }
    macro_rules! whole {
        (|$a:ident, $b:ident, $c:ident| $value:expr) => {
            match kind {
                Type::U16 => update!(u16: |$a, $b, $c| $value),
                Type::U32 => update!(u32: |$a, $b, $c| $value),
                Type::U64 => update!(u64: |$a, $b, $c| $value),
                Type::S32 => update!(i32: |$a, $b, $c| $value),
                Type::S64 => update!(i64: |$a, $b, $c| $value),
                _ => None,
            }
        };
    }
    const PLAIN: How =
        How { rounding: Rounding::Near, flush: false, saturate: false, nan: false, relu: false };
    const FLUSH: How = How { flush: true, ..PLAIN };
    match (name, kind) {
        // In global memory, f32 additions flush subnormal numbers. In shared memory they keep them.
        ("add", Type::F32) if global => update!(f32: |a, b, c| a.add(FLUSH, b)),
        ("add", Type::F32) => update!(f32: |a, b, c| a.add(PLAIN, b)),
        // In global memory, an f64 addition keeps a NaN operand unchanged. In shared memory it is an ordinary
        // addition with the new operand first.
        ("add", Type::F64) if global => update!(f64: |a, b, c| {
            if b.is_nan() { b } else if a.is_nan() { a } else { a.add(PLAIN, b) }
        }),
        ("add", Type::F64) => update!(f64: |a, b, c| b.add(PLAIN, a)),
        ("add", Type::F16) => update!(F16: |a, b, c| a.add(PLAIN, b)),
        ("add", Type::Bf16) => update!(Bf16: |a, b, c| a.add(PLAIN, b)),
        ("add", Type::F16x2) => update!(Pair<F16>: |a, b, c| a.add(PLAIN, b)),
        ("add", Type::Bf16x2) => update!(Pair<Bf16>: |a, b, c| a.add(PLAIN, b)),
        ("add", _) => whole!(|a, b, c| a.wrapping_add(b)),
        ("min", _) => whole!(|a, b, c| a.min(b)),
        ("max", _) => whole!(|a, b, c| a.max(b)),
        ("and", _) => whole!(|a, b, c| a & b),
        ("or", _) => whole!(|a, b, c| a | b),
        ("xor", _) => whole!(|a, b, c| a ^ b),
        ("exch", _) => whole!(|a, b, c| b),
        ("cas", _) => whole!(|a, b, c| if a == b { c } else { a }),
        ("inc", Type::U32) => update!(u32: |a, b, c| if a >= b { 0 } else { a + 1 }),
        ("dec", Type::U32) => update!(u32: |a, b, c| if a == 0 || a > b { b } else { a - 1 }),
        _ => None,
    }
}
