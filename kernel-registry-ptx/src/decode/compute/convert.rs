//! Finds the functions of `cvt`: conversions between all types, with rounding and saturation.

use crate::decode::compute::float::{Bf16, F16, Number, Pair};
use crate::decode::opcode::Opcode;
use crate::types::{Compute, How, Rounding, Scalar, Type, each, lanes, one_of, scalar_float};

/// Evaluates an expression with `$T` as any integer type that `cvt` knows.
macro_rules! any_integer {
    ($kind:expr, $T:ident => $value:expr) => {
        one_of!($kind, $T => $value; U8 = u8, U16 = u16, U32 = u32, U64 = u64, S8 = i8, S16 = i16, S32 = i32, S64 = i64)?
    };
}

macro_rules! any_float {
    ($kind:expr, $T:ident => $value:expr) => {
        scalar_float!($kind, $T => $value)?
    };
}

pub(crate) fn convert(opcode: &mut Opcode<'_>) -> Option<(Compute, How)> {
    // Modifiers like `.rni` round to a whole number, even if the result has a floating-point type.
    let whole = opcode.take_any(&["rni", "rzi", "rmi", "rpi"]).map(|name| match name {
        "rni" => Rounding::Near,
        "rzi" => Rounding::Zero,
        "rmi" => Rounding::Down,
        _ => Rounding::Up,
    });
    let mut how = opcode.how();
    how.rounding = whole.unwrap_or(how.rounding);
    let [to, from] = opcode.kinds()?;
    if refused(to, from, how) {
        return None;
    }
    // Conversions from and to f16 never flush subnormal numbers.
    how.flush &= to != Type::F16 && from != Type::F16;
    let float = |kind| matches!(kind, Type::F16 | Type::Bf16 | Type::F32 | Type::F64);
    let function = match (to, from) {
        (Type::F16x2, Type::F32) => lanes!(how, |a: f32, b: f32| Pair::<F16>(cast(how, b), cast(how, a))),
        (Type::Bf16x2, Type::F32) => lanes!(how, |a: f32, b: f32| Pair::<Bf16>(cast(how, b), cast(how, a))),
        _ if float(to) && float(from) && whole.is_some() => {
            any_float!(from, F => any_float!(to, T => lanes!(how, |a: F| {
                let rounded = to_whole(a.enter(how), how.rounding);
                if size_of::<F>() == 8 && rounded.is_nan() && !how.saturate {
                    T::from_register(a.quiet().bits())
                } else {
                    T::finish(How { rounding: Rounding::Near, ..how }, rounded, || 0.0)
                }
            })))
        }
        _ if float(to) && float(from) => {
            any_float!(from, F => any_float!(to, T => lanes!(how, |a: F| cast::<F, T>(how, a))))
        }
        _ if float(to) => {
            any_integer!(from, I => any_float!(to, T => lanes!(how, |a: I| from_integer::<T>(how, a as i128))))
        }
        _ if float(from) => {
            let wide = from == Type::F64 || to.size() == 8;
            any_float!(from, F => any_integer!(to, I => if wide {
                lanes!(how, |a: F| {
                    let whole = to_whole(a.enter(how), how.rounding);
                    if whole.is_nan() { I::from_register(1 << (I::BITS - 1)).bits() } else { (whole as I).bits() }
                })
            } else {
                // Rust's cast saturates, and makes NaN zero, as PTX does.
                lanes!(how, |a: F| to_whole(a.enter(how), how.rounding) as I)
            }))
        }
        _ if how.saturate => any_integer!(from, F => any_integer!(to, I => lanes!(_, |a: F| {
            (a as i128).clamp(I::MIN as i128, I::MAX as i128) as I
        }))),
        _ => any_integer!(from, F => any_integer!(to, I => lanes!(_, |a: F| a as I))),
    };
    Some((function, how))
}

/// Returns whether ptxas refuses the conversion. It refuses saturation if the result type has all values
/// anyway, and conversions between bf16 and integers of less than 32 bits.
fn refused(to: Type, from: Type, how: How) -> bool {
    let signed = |kind| matches!(kind, Type::S8 | Type::S16 | Type::S32 | Type::S64);
    let whole = |kind| signed(kind) || matches!(kind, Type::U8 | Type::U16 | Type::U32 | Type::U64);
    let fits = match (signed(to), signed(from)) {
        (true, false) => from.size() < to.size(),
        (false, true) => false,
        _ => from.size() <= to.size(),
    };
    let short = |kind: Type| whole(kind) && kind.size() < 4;
    how.saturate && whole(to) && whole(from) && fits
        || to == Type::Bf16 && short(from)
        || from == Type::Bf16 && short(to)
}

fn cast<F: Number, T: Number>(how: How, value: F) -> T {
    if value.wide().is_nan() && !how.saturate && !how.relu {
        // In conversions from and to f64, a NaN keeps its sign and the highest bits of its payload. Other
        // conversions return the same NaN always.
        if F::MANTISSA == 52 || T::MANTISSA == 52 {
            let value = if how.flush && F::MANTISSA == 23 { F::NAN } else { value };
            let sign = value.bits() >> (8 * size_of::<F>() - 1) << (8 * size_of::<T>() - 1);
            let payload = value.bits() << (52 - F::MANTISSA) & ((1 << 52) - 1);
            let exponent = u64::MAX >> (65 - 8 * size_of::<T>()) & u64::MAX << T::MANTISSA;
            return T::from_register(sign | exponent | (payload | 1 << 51) >> (52 - T::MANTISSA));
        }
        // A bf16 is the upper half of an f32.
        if F::MANTISSA == 7 && T::MANTISSA == 23 {
            return T::from_register(value.bits() << 16);
        }
    }
    T::finish(how, value.enter(how), || 0.0)
}

fn to_whole(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Near => value.round_ties_even(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// Converts an integer. An f64 may not hold all of its bits, so the lost part is passed on to the rounding.
fn from_integer<T: Number>(how: How, value: i128) -> T {
    let near = value as f64;
    T::finish_exact(how, near, (value - near as i128) as f64)
}
