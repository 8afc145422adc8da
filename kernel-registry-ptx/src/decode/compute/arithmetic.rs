//! Finds the function of an opcode for arithmetic, comparisons and selections.

use crate::decode::compute::bits;
use crate::decode::compute::convert::convert;
use crate::decode::compute::float::{Bf16, F16, Float, Number, Pair, divide, root};
use crate::decode::compute::fp8;
use crate::decode::opcode::Opcode;
use crate::types::{Compute, How, Scalar, Type, each, floating, integer, lanes, one_of, scalar_float};

/// Returns the function of an opcode that computes a result from its operands only. `None` if the opcode is
/// unknown or of another kind.
pub(crate) fn function(opcode: &mut Opcode<'_>) -> Option<(Compute, How)> {
    let plain = |function: Option<Compute>| Some((function?, How::default()));
    match opcode.name {
        "cvt" if fp8::is_narrow(&opcode.modifiers) => fp8::convert(opcode),
        "cvt" => convert(opcode),
        "selp" => {
            opcode.kind()?;
            plain(Some(lanes!(_, |a: u64, b: u64, p: bool| if p { a } else { b })))
        }
        "slct" => plain(Some(choice(opcode)?)),
        "dp4a" => plain(Some(dot(opcode.kinds()?))),
        "dp2a" => {
            let high = opcode.take_any(&["lo", "hi"])? == "hi";
            plain(Some(short_dot(opcode.kinds()?, high)))
        }
        _ if opcode.types.len() != 1 => None,
        _ if opcode.types.iter().any(|kind| is_float(*kind)) => {
            let how = opcode.how();
            let kind = opcode.kind()?;
            Some((exact(opcode, kind).or_else(|| approximated(opcode, kind))?, how))
        }
        _ => {
            let how = How { saturate: opcode.take("sat"), ..How::default() };
            let kind = opcode.kind()?;
            let function =
                integer_function(opcode, kind, how.saturate).or_else(|| bits::function(opcode, kind))?;
            Some((function, how))
        }
    }
}

fn is_float(kind: Type) -> bool {
    matches!(kind, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64)
}

/// Returns the function of an integer arithmetic opcode.
fn integer_function(opcode: &mut Opcode<'_>, kind: Type, saturate: bool) -> Option<Compute> {
    if saturate {
        return match (opcode.name, kind) {
            ("add", Type::S32) => Some(lanes!(_, |a: i32, b: i32| a.saturating_add(b))),
            ("sub", Type::S32) => Some(lanes!(_, |a: i32, b: i32| a.saturating_sub(b))),
            ("mad", Type::S32) if opcode.take("hi") => Some(lanes!(_, |a: i32, b: i32, c: i32| {
                (((i64::from(a) * i64::from(b)) >> 32) as i32).saturating_add(c)
            })),
            _ => None,
        };
    }
    match opcode.name {
        "add" => integer!(kind, T => lanes!(_, |a: T, b: T| a.wrapping_add(b))),
        "sub" => integer!(kind, T => lanes!(_, |a: T, b: T| a.wrapping_sub(b))),
        "mul" | "mad" => product(opcode, kind),
        "mul24" | "mad24" => short_product(opcode, kind),
        // Division by zero gives all ones, as in hardware.
        "div" => integer!(kind, T => lanes!(_, |a: T, b: T| if b == 0 { !0 } else { a.wrapping_div(b) })),
        "rem" => integer!(kind, T => lanes!(_, |a: T, b: T| if b == 0 { !0 } else { a.wrapping_rem(b) })),
        "min" => integer!(kind, T => lanes!(_, |a: T, b: T| a.min(b))),
        "max" => integer!(kind, T => lanes!(_, |a: T, b: T| a.max(b))),
        "neg" => integer!(kind, T => lanes!(_, |a: T| (0 as T).wrapping_sub(a))),
        "sad" => integer!(kind, T => lanes!(_, |a: T, b: T, c: T| c.wrapping_add(a.abs_diff(b) as T))),
        "abs" => match kind {
            Type::S16 => Some(lanes!(_, |a: i16| a.wrapping_abs())),
            Type::S32 => Some(lanes!(_, |a: i32| a.wrapping_abs())),
            Type::S64 => Some(lanes!(_, |a: i64| a.wrapping_abs())),
            _ => None,
        },
        _ => None,
    }
}

/// Makes the function of `mul`, or of `mad`, which adds a third operand as wide as the product.
macro_rules! product {
    ($opcode:expr, $T:ty => $R:ty, |$a:ident, $b:ident| $value:expr) => {
        if $opcode.name.starts_with("mad") {
            lanes!(_, |$a: $T, $b: $T, c: $R| $value.wrapping_add(c))
        } else {
            lanes!(_, |$a: $T, $b: $T| $value)
        }
    };
}

fn product(opcode: &mut Opcode<'_>, kind: Type) -> Option<Compute> {
    match opcode.take_any(&["lo", "hi", "wide"])? {
        "lo" => integer!(kind, T => product!(opcode, T => T, |a, b| a.wrapping_mul(b))),
        // For `hi`, the product of two u64 may overflow i128, but only into the sign. The shift still gives
        // the right bits.
        "hi" => integer!(kind, T => product!(opcode, T => T, |a, b| {
            ((a as i128).wrapping_mul(b as i128) >> T::BITS) as T
        })),
        _ => Some(match kind {
            Type::U16 => product!(opcode, u16 => u32, |a, b| u32::from(a) * u32::from(b)),
            Type::S16 => product!(opcode, i16 => i32, |a, b| i32::from(a) * i32::from(b)),
            Type::U32 => product!(opcode, u32 => u64, |a, b| u64::from(a) * u64::from(b)),
            Type::S32 => product!(opcode, i32 => i64, |a, b| i64::from(a) * i64::from(b)),
            _ => return None,
        }),
    }
}

/// Returns the function of `mul24` or `mad24`, which multiply the lowest 24 bits of the operands. The result
/// is the lowest 32 bits of the product, or the highest.
fn short_product(opcode: &mut Opcode<'_>, kind: Type) -> Option<Compute> {
    fn short(a: u32, b: u32, signed: bool) -> i64 {
        let wide =
            |bits: u32| if signed { i64::from((bits << 8) as i32 >> 8) } else { i64::from(bits << 8 >> 8) };
        wide(a) * wide(b)
    }
    let high = opcode.take_any(&["lo", "hi"])? == "hi";
    Some(match (kind, high) {
        (Type::U32, false) => product!(opcode, u32 => u32, |a, b| short(a, b, false) as u32),
        (Type::U32, true) => product!(opcode, u32 => u32, |a, b| (short(a, b, false) >> 16) as u32),
        (Type::S32, false) => product!(opcode, u32 => u32, |a, b| short(a, b, true) as u32),
        (Type::S32, true) => product!(opcode, u32 => u32, |a, b| (short(a, b, true) >> 16) as u32),
        _ => return None,
    })
}

/// Returns the function of `dp4a`: the sum of the products of four pairs of bytes. `kinds` are the types of a
/// and b.
fn dot(kinds: [Type; 2]) -> Compute {
    fn sum<A: Scalar + Into<i64>, B: Scalar + Into<i64>>(a: u32, b: u32, c: u32) -> u32 {
        let byte = |lane: u32| {
            A::from_register(u64::from(a >> lane)).into() * B::from_register(u64::from(b >> lane)).into()
        };
        c.wrapping_add((byte(0) + byte(8) + byte(16) + byte(24)) as u32)
    }
    match kinds {
        [Type::U32, Type::U32] => lanes!(_, |a: u32, b: u32, c: u32| sum::<u8, u8>(a, b, c)),
        [Type::U32, _] => lanes!(_, |a: u32, b: u32, c: u32| sum::<u8, i8>(a, b, c)),
        [_, Type::U32] => lanes!(_, |a: u32, b: u32, c: u32| sum::<i8, u8>(a, b, c)),
        _ => lanes!(_, |a: u32, b: u32, c: u32| sum::<i8, i8>(a, b, c)),
    }
}

/// Returns the function of `dp2a`: the sum of the products of two pairs of a 16-bit half and a byte. The
/// bytes are the lower two, or the upper two if `high`.
fn short_dot(kinds: [Type; 2], high: bool) -> Compute {
    fn sum<A: Scalar + Into<i64>, B: Scalar + Into<i64>>(a: u32, b: u32, c: u32) -> u32 {
        let term = |lane: u32| {
            A::from_register(u64::from(a >> (16 * lane))).into()
                * B::from_register(u64::from(b >> (8 * lane))).into()
        };
        c.wrapping_add((term(0) + term(1)) as u32)
    }
    match (kinds, high) {
        ([Type::U32, Type::U32], false) => lanes!(_, |a: u32, b: u32, c: u32| sum::<u16, u8>(a, b, c)),
        ([Type::U32, Type::U32], true) => lanes!(_, |a: u32, b: u32, c: u32| sum::<u16, u8>(a, b >> 16, c)),
        ([Type::U32, _], false) => lanes!(_, |a: u32, b: u32, c: u32| sum::<u16, i8>(a, b, c)),
        ([Type::U32, _], true) => lanes!(_, |a: u32, b: u32, c: u32| sum::<u16, i8>(a, b >> 16, c)),
        ([_, Type::U32], false) => lanes!(_, |a: u32, b: u32, c: u32| sum::<i16, u8>(a, b, c)),
        ([_, Type::U32], true) => lanes!(_, |a: u32, b: u32, c: u32| sum::<i16, u8>(a, b >> 16, c)),
        (_, false) => lanes!(_, |a: u32, b: u32, c: u32| sum::<i16, i8>(a, b, c)),
        (_, true) => lanes!(_, |a: u32, b: u32, c: u32| sum::<i16, i8>(a, b >> 16, c)),
    }
}

/// Returns the function of an operation that IEEE 754 defines, with one rounding.
fn exact(opcode: &mut Opcode<'_>, kind: Type) -> Option<Compute> {
    // Such as `min.xorsign.abs`.
    let of_magnitudes = kind == Type::F32 && opcode.take("xorsign") && opcode.take("abs");
    match opcode.name {
        "add" => floating!(kind, T => lanes!(how, |a: T, b: T| a.add(how, b))),
        "sub" => floating!(kind, T => lanes!(how, |a: T, b: T| a.sub(how, b))),
        "mul" => floating!(kind, T => lanes!(how, |a: T, b: T| a.mul(how, b))),
        "fma" | "mad" => floating!(kind, T => lanes!(how, |a: T, b: T, c: T| a.fma(how, b, c))),
        "neg" => floating!(kind, T => lanes!(how, |a: T| a.negate().flushed(how))),
        "abs" => floating!(kind, T => lanes!(how, |a: T| a.magnitude().flushed(how))),
        "min" if of_magnitudes => {
            Some(lanes!(how, |a: f32, b: f32| signed(a, b, a.magnitude().smaller(how, b.magnitude()))))
        }
        "max" if of_magnitudes => {
            Some(lanes!(how, |a: f32, b: f32| signed(a, b, a.magnitude().larger(how, b.magnitude()))))
        }
        "min" => floating!(kind, T => lanes!(how, |a: T, b: T| a.smaller(how, b))),
        "max" => floating!(kind, T => lanes!(how, |a: T, b: T| a.larger(how, b))),
        _ => single_or_double(opcode, kind),
    }
}

/// Returns `value` with the sign of the product of `a` and `b`.
fn signed(a: f32, b: f32, value: f32) -> f32 {
    let sign = (a.to_bits() ^ b.to_bits()) & 1 << 31;
    if value.is_nan() { value } else { f32::from_bits(value.to_bits() ^ sign) }
}

fn single_or_double(opcode: &mut Opcode<'_>, kind: Type) -> Option<Compute> {
    match (opcode.name, kind) {
        // The exact quotient is within the error bounds of the approximate quotient.
        ("div", Type::F32) if opcode.take("approx") => {
            // Hardware multiplies by the inverse, and flushes the inverse of a large divisor to zero.
            Some(lanes!(how, |a: f32, b: f32| {
                let b = if b.abs() > 1.0 / f32::MIN_POSITIVE { f32::INFINITY.copysign(b) } else { b };
                divide(how, a, b)
            }))
        }
        ("div", Type::F32) => {
            opcode.take("full");
            Some(lanes!(how, |a: f32, b: f32| divide(how, a, b)))
        }
        ("div", Type::F64) => Some(lanes!(how, |a: f64, b: f64| divide(how, a, b))),
        ("rcp", Type::F32) => {
            opcode.take("approx");
            Some(lanes!(how, |a: f32| divide(how, 1.0, a)))
        }
        ("rcp", Type::F64) if opcode.take("approx") => {
            Some(lanes!(how, |a: f64| upper_half(how, a, |a| divide(how, 1.0, a))))
        }
        ("rcp", Type::F64) => Some(lanes!(how, |a: f64| divide(how, 1.0, a))),
        ("sqrt", Type::F32) => {
            opcode.take("approx");
            Some(lanes!(how, |a: f32| root(how, a)))
        }
        ("sqrt", Type::F64) => Some(lanes!(how, |a: f64| root(how, a))),
        ("copysign", Type::F32) => Some(lanes!(_, |a: u32, b: u32| b & !(1 << 31) | a & (1 << 31))),
        ("copysign", Type::F64) => Some(lanes!(_, |a: u64, b: u64| b & !(1 << 63) | a & (1 << 63))),
        ("testp", _) => {
            let classes = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
            let class = opcode.take_any(&classes)?;
            one_of!(kind, T => match class {
                "finite" => lanes!(_, |a: T| a.is_finite()),
                "infinite" => lanes!(_, |a: T| a.is_infinite()),
                "number" => lanes!(_, |a: T| !a.is_nan()),
                "notanumber" => lanes!(_, |a: T| a.is_nan()),
                "normal" => lanes!(_, |a: T| a.is_normal() || a == 0.0),
                _ => lanes!(_, |a: T| a.is_subnormal()),
            }; F32 = f32, F64 = f64)
        }
        _ => None,
    }
}

/// Returns a function that hardware approximates. The result is within the documented error.
fn approximated(opcode: &mut Opcode<'_>, kind: Type) -> Option<Compute> {
    if !opcode.take("approx") {
        return None;
    }
    let single = kind == Type::F32;
    match opcode.name {
        "rsqrt" if single => Some(lanes!(how, |a: f32| a.approximate(how, |x| x.sqrt().recip()))),
        "rsqrt" if kind == Type::F64 => {
            Some(lanes!(how, |a: f64| upper_half(how, a, |a| a.approximate(how, |x| x.sqrt().recip()))))
        }
        "sin" if single => Some(lanes!(how, |a: f32| a.approximate(how, f64::sin))),
        "cos" if single => Some(lanes!(how, |a: f32| a.approximate(how, f64::cos))),
        "lg2" if single => Some(lanes!(how, |a: f32| a.approximate(how, f64::log2))),
        "ex2" if kind != Type::F64 => {
            floating!(kind, T => lanes!(how, |a: T| a.approximate(how, f64::exp2)))
        }
        "tanh" if kind != Type::F64 => {
            floating!(kind, T => lanes!(how, |a: T| a.approximate(how, f64::tanh)))
        }
        _ => None,
    }
}

/// Applies a function that hardware approximates for f64. With `.ftz`, the lower half of operand and result
/// is zero, and NaN results have a fixed bit pattern.
fn upper_half(how: How, a: f64, function: impl FnOnce(f64) -> f64) -> f64 {
    let upper = |value: f64| f64::from_bits(value.to_bits() & !0xffff_ffff);
    if !how.flush {
        return function(a);
    }
    let result = function(upper(a));
    if result.is_nan() { f64::from_bits(0x7fff_ffff << 32) } else { upper(result) }
}

/// Returns the function of `slct`, which selects by the sign of the third operand.
fn choice(opcode: &mut Opcode<'_>) -> Option<Compute> {
    let flush = opcode.take("ftz");
    let [_, by] = opcode.kinds()?;
    match by {
        Type::S32 => Some(lanes!(_, |a: u64, b: u64, c: i32| if c >= 0 { a } else { b })),
        // A negative subnormal number is flushed to minus zero, which counts as not negative.
        Type::F32 if flush => {
            Some(lanes!(_, |a: u64, b: u64, c: f32| if c > -f32::MIN_POSITIVE { a } else { b }))
        }
        Type::F32 => Some(lanes!(_, |a: u64, b: u64, c: f32| if c >= 0.0 { a } else { b })),
        _ => None,
    }
}

/// Returns the comparison of `setp` and `set`. Its result is a predicate.
pub(crate) fn comparison(name: &str, kind: Type) -> Option<Compute> {
    macro_rules! ordered {
        ($operator:tt) => {
            integer!(kind, T => lanes!(_, |a: T, b: T| a $operator b))
                .or_else(|| scalar_float!(kind, T => lanes!(how, |a: T, b: T| a.enter(how) $operator b.enter(how))))
        };
    }
    macro_rules! unordered {
        ($($not:tt)*) => {
            scalar_float!(kind, T => lanes!(how, |a: T, b: T| {
                let (a, b) = (a.enter(how), b.enter(how));
                a.is_nan() || b.is_nan() || a $($not)* b
            }))
        };
    }
    match name {
        "eq" => ordered!(==),
        // `ne` means ordered and not equal, unlike Rust's `!=`, which is true for NaN.
        "ne" => integer!(kind, T => lanes!(_, |a: T, b: T| a != b)).or_else(|| {
            scalar_float!(kind, T => lanes!(how, |a: T, b: T| {
                let (a, b) = (a.enter(how), b.enter(how));
                a != b && !a.is_nan() && !b.is_nan()
            }))
        }),
        "lt" | "lo" => ordered!(<),
        "le" | "ls" => ordered!(<=),
        "gt" | "hi" => ordered!(>),
        "ge" | "hs" => ordered!(>=),
        "equ" => unordered!(==),
        "neu" => unordered!(!=),
        "ltu" => unordered!(<),
        "leu" => unordered!(<=),
        "gtu" => unordered!(>),
        "geu" => unordered!(>=),
        "num" => scalar_float!(kind, T => lanes!(_, |a: T, b: T| !(a.wide().is_nan() || b.wide().is_nan()))),
        "nan" => scalar_float!(kind, T => lanes!(_, |a: T, b: T| a.wide().is_nan() || b.wide().is_nan())),
        _ => None,
    }
}
