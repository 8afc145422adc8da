//! Implements IEEE 754 floating point in four formats and four rounding modes.
//!
//! Values are widened to f64. For sums, products, quotients and roots of narrower formats, rounding to f64
//! first does not change the result. For fma and directed rounding it would, so the f64 is rounded to odd:
//! its last bit is set if anything was lost. Rounding that f64 again gives the same result as rounding the
//! exact value.

use crate::decode::compute::exact::sign_of_sum;
use crate::types::{How, Rounding, Scalar};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct F16(pub u16);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bf16(pub u16);

/// Two values in one register, the first in the low half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pair<T>(pub T, pub T);

/// Implements [`Scalar`] for types that wrap their bits.
macro_rules! scalar {
    ($($name:ident: $bits:ty),*) => {$(
        impl Scalar for $name {
            fn from_register(bits: u64) -> Self {
                Self(bits as $bits)
            }
            fn bits(self) -> u64 {
                u64::from(self.0)
            }
        }
    )*};
}

scalar!(F16: u16, Bf16: u16);

impl<T: Scalar> Scalar for Pair<T> {
    fn from_register(bits: u64) -> Self {
        Self(T::from_register(bits & 0xffff), T::from_register(bits >> 16 & 0xffff))
    }
    fn bits(self) -> u64 {
        self.0.bits() | self.1.bits() << 16
    }
}

/// A number in one floating-point format.
pub(crate) trait Number: Scalar {
    /// The NaN that operations return.
    const NAN: Self;
    /// The smallest normal number of the format.
    const NORMAL: f64;
    /// The number of bits of the mantissa, without the implicit bit.
    const MANTISSA: u32;
    fn wide(self) -> f64;
    /// Rounds a value. `near` is the exact value rounded to f64, and `rest` has the sign of what this
    /// rounding lost.
    fn round(near: f64, rest: f64, rounding: Rounding) -> Self;

    /// Replaces a NaN result by the NaN that hardware derives from the operands.
    #[inline(always)]
    fn or_nan<const N: usize>(self, _operands: [Self; N]) -> Self {
        self
    }

    /// Returns the NaN that an operation returns for this NaN operand. Operations that only change the sign
    /// do so too.
    fn quiet(self) -> Self {
        Self::NAN.or_nan([self])
    }

    fn enter(self, how: How) -> f64 {
        let wide = self.wide();
        if how.flush && wide.abs() < Self::NORMAL { 0f64.copysign(wide) } else { wide }
    }

    /// Rounds a result. `rest` is called only if the rounding mode needs it.
    #[inline(always)]
    fn finish(how: How, near: f64, rest: impl FnOnce() -> f64) -> Self {
        let rest = if how.rounding == Rounding::Near { 0.0 } else { rest() };
        Self::finish_exact(how, near, rest)
    }

    #[inline(always)]
    fn finish_exact(how: How, near: f64, rest: f64) -> Self {
        if near.is_nan() && !how.saturate {
            return Self::NAN;
        }
        let rounded = Self::round(near, rest, how.rounding);
        if !how.flush && !how.saturate && !how.relu {
            return rounded;
        }
        let wide = rounded.wide();
        // A result that was too small before rounding is flushed, even if it rounds to a normal number.
        let small = |wide: f64| {
            wide.abs() < Self::NORMAL
                || wide.abs() == Self::NORMAL
                    && Self::round(4.0 * near, rest, how.rounding).wide().abs() < 4.0 * Self::NORMAL
        };
        if how.flush && small(wide) {
            let sign = if how.saturate || how.relu { 1.0 } else { wide };
            Self::round(0f64.copysign(sign), 0.0, Rounding::Near)
        } else if how.saturate {
            // Saturation also turns NaN into zero.
            Self::round(if wide > 0.0 { wide.min(1.0) } else { 0.0 }, 0.0, Rounding::Near)
        } else if how.relu && wide <= 0.0 {
            Self::round(0.0, 0.0, Rounding::Near)
        } else {
            rounded
        }
    }
}

impl Number for f64 {
    const NAN: Self = f64::from_bits(0xfff8_0000_0000_0000);
    const NORMAL: f64 = f64::MIN_POSITIVE;
    const MANTISSA: u32 = 52;
    /// Returns the first operand that is a NaN, made quiet, because f64 keeps the payload of a NaN, unlike
    /// narrower formats. `operands` are in the order in which hardware looks at them: the factors of a
    /// product from last to first, with a third operand in between. This works on integers, because the
    /// compiler may choose the bits of a NaN that it computes.
    #[inline(always)]
    fn or_nan<const N: usize>(self, operands: [Self; N]) -> Self {
        let is_nan = |bits: &u64| bits & !(1 << 63) > 0x7ff0_0000_0000_0000;
        let bits = self.to_bits();
        if !is_nan(&bits) {
            return self;
        }
        let found = operands.map(f64::to_bits).into_iter().find(is_nan);
        Self::from_bits(found.map_or(0xfff8_0000_0000_0000, |bits| bits | 1 << 51))
    }
    fn wide(self) -> f64 {
        self
    }
    fn round(near: f64, rest: f64, rounding: Rounding) -> Self {
        let lost = rest.partial_cmp(&0.0).map_or(0, |order| order as i8);
        match (rounding, lost) {
            (Rounding::Zero, 1) if near < 0.0 => near.next_up(),
            (Rounding::Zero, -1) if near > 0.0 => near.next_down(),
            (Rounding::Down, -1) => near.next_down(),
            (Rounding::Up, 1) => near.next_up(),
            _ => near,
        }
    }
}

impl Number for f32 {
    const NAN: Self = f32::from_bits(0x7fff_ffff);
    const NORMAL: f64 = f32::MIN_POSITIVE as f64;
    const MANTISSA: u32 = 23;
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn round(near: f64, rest: f64, rounding: Rounding) -> Self {
        let odd = odd(near, rest);
        match rounding {
            Rounding::Near => odd as f32,
            _ => f32::from_bits(narrow(odd, rounding, Self::MANTISSA, 8) as u32),
        }
    }
}

impl Number for F16 {
    const NAN: Self = Self(0x7fff);
    const NORMAL: f64 = 1.0 / 16384.0;
    const MANTISSA: u32 = 10;
    fn wide(self) -> f64 {
        let (exponent, mantissa) = (self.0 >> 10 & 31, f64::from(self.0 & 1023));
        let magnitude = match exponent {
            0 => mantissa / 16_777_216.0,
            31 if mantissa == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1024.0 + mantissa) * 2f64.powi(i32::from(exponent) - 25),
        };
        if self.0 >> 15 == 0 { magnitude } else { -magnitude }
    }
    fn round(near: f64, rest: f64, rounding: Rounding) -> Self {
        Self(narrow(odd(near, rest), rounding, Self::MANTISSA, 5) as u16)
    }
}

impl Number for Bf16 {
    const NAN: Self = Self(0x7fff);
    const NORMAL: f64 = f32::MIN_POSITIVE as f64;
    const MANTISSA: u32 = 7;
    fn wide(self) -> f64 {
        f64::from(f32::from_bits(u32::from(self.0) << 16))
    }
    fn round(near: f64, rest: f64, rounding: Rounding) -> Self {
        Self(narrow(odd(near, rest), rounding, Self::MANTISSA, 8) as u16)
    }
}

/// Rounds to odd. If something was lost, returns the neighbour of the exact value whose last bit is odd.
#[inline(always)]
fn odd(near: f64, rest: f64) -> f64 {
    let bits = near.to_bits();
    if rest == 0.0 || rest.is_nan() || bits & 1 == 1 || near == 0.0 || !near.is_finite() {
        near
    } else if (rest > 0.0) == (near > 0.0) {
        f64::from_bits(bits + 1)
    } else {
        f64::from_bits(bits - 1)
    }
}

/// Rounds to a format with this many bits of mantissa and of exponent. Returns the bits of the result.
pub(crate) fn narrow(value: f64, rounding: Rounding, mantissa: u32, exponent: u32) -> u64 {
    let sign = value.to_bits() >> 63;
    let infinite = ((1u64 << exponent) - 1) << mantissa;
    let signed = |magnitude: u64| sign << (mantissa + exponent) | magnitude;
    if value.is_nan() {
        return infinite | ((1 << mantissa) - 1);
    }
    if value.is_infinite() {
        return signed(infinite);
    }
    let bias = (1i64 << (exponent - 1)) - 1;
    let found = (value.to_bits() >> 52 & 0x7ff) as i64;
    let full = value.to_bits() & ((1 << 52) - 1) | u64::from(found != 0) << 52;
    // The exponent field of the result. For each step below 1, the result is subnormal and loses one more
    // bit.
    let field = found.max(1) - 1023 + bias;
    let shift = (52 - i64::from(mantissa) + (1 - field).max(0)).min(60) as u32;
    let kept = full >> shift;
    let lost = full & ((1 << shift) - 1);
    let half = 1u64 << (shift - 1);
    let up = match rounding {
        Rounding::Near => lost > half || lost == half && kept & 1 == 1,
        Rounding::Zero => false,
        Rounding::Down => sign == 1 && lost != 0,
        Rounding::Up => sign == 0 && lost != 0,
    };
    // The implicit bit of the mantissa adds one to the exponent field, and so does a carry out of the
    // mantissa.
    let magnitude = kept + u64::from(up) + (((field.max(1) - 1) as u64) << mantissa);
    if magnitude < infinite {
        return signed(magnitude);
    }
    let away = match rounding {
        Rounding::Near => true,
        Rounding::Zero => false,
        Rounding::Down => sign == 1,
        Rounding::Up => sign == 0,
    };
    signed(if away { infinite } else { infinite - 1 })
}

/// Returns the sum, rounded to nearest. If the numbers cancel out, the rounding direction decides the sign of
/// the zero.
#[inline(always)]
fn sum(how: How, a: f64, b: f64) -> f64 {
    let sum = a + b;
    if how.rounding == Rounding::Down && sum == 0.0 && a.is_sign_negative() != b.is_sign_negative() {
        -0.0
    } else {
        sum
    }
}

/// Returns a number with the sign of what the rounding of `sum` lost. A sum that overflowed has lost the part
/// beyond the largest number.
fn rest_of_sum(a: f64, b: f64, sum: f64) -> f64 {
    if sum.is_infinite() {
        return if a.is_finite() && b.is_finite() { -sum } else { 0.0 };
    }
    let of_b = sum - a;
    (a - (sum - of_b)) + (b - of_b)
}

fn rest_of_product(a: f64, b: f64, product: f64) -> f64 {
    if product.is_infinite() {
        return if a.is_finite() && b.is_finite() { -product } else { 0.0 };
    }
    sign_of_sum(a, b, -product, 0.0)
}

/// Operations that PTX computes exactly and then rounds once.
pub(crate) trait Float: Scalar {
    fn add(self, how: How, other: Self) -> Self;
    fn sub(self, how: How, other: Self) -> Self;
    fn mul(self, how: How, other: Self) -> Self;
    fn fma(self, how: How, other: Self, third: Self) -> Self;
    fn negate(self) -> Self;
    fn magnitude(self) -> Self;
    /// Returns zero instead of a subnormal number if `how` asks for flushing.
    fn flushed(self, how: How) -> Self;
    fn smaller(self, how: How, other: Self) -> Self;
    fn larger(self, how: How, other: Self) -> Self;
    /// Applies a function that hardware approximates. The result is computed in f64 here and rounded once.
    fn approximate(self, how: How, function: fn(f64) -> f64) -> Self;
}

macro_rules! float {
    ($($number:ty, $sign:expr;)*) => {$(
        impl Float for $number {
            #[inline(always)]
            fn add(self, how: How, other: Self) -> Self {
                let (a, b) = (self.enter(how), other.enter(how));
                Self::finish(how, sum(how, a, b), || rest_of_sum(a, b, a + b)).or_nan([other, self])
            }
            #[inline(always)]
            fn sub(self, how: How, other: Self) -> Self {
                // The result is not computed as the sum with `negate`, which would change the sign of a NaN.
                let (a, b) = (self.enter(how), -other.enter(how));
                Self::finish(how, sum(how, a, b), || rest_of_sum(a, b, a + b)).or_nan([other, self])
            }
            #[inline(always)]
            fn mul(self, how: How, other: Self) -> Self {
                let (a, b) = (self.enter(how), other.enter(how));
                Self::finish(how, a * b, || rest_of_product(a, b, a * b)).or_nan([other, self])
            }
            #[inline(always)]
            fn fma(self, how: How, other: Self, third: Self) -> Self {
                let (a, b, c) = (self.enter(how), other.enter(how), third.enter(how));
                if size_of::<Self>() < 8 {
                    // The product of two narrow numbers is exact in f64, but the sum is not.
                    let sum = sum(how, a * b, c);
                    return Self::finish_exact(how, sum, rest_of_sum(a * b, c, sum));
                }
                let mut near = a.mul_add(b, c);
                if near == 0.0 && sign_of_sum(a, b, c, 0.0) == 0.0 {
                    near = sum(how, a * b, c);
                }
                Self::finish(how, near, || {
                    let beyond = near.is_infinite() && [a, b, c].into_iter().all(f64::is_finite);
                    if beyond { -near } else { sign_of_sum(a, b, c, -near) }
                })
                .or_nan([other, third, self])
            }
            fn negate(self) -> Self {
                if self.wide().is_nan() { self.quiet() } else { Self::from_register(self.bits() ^ $sign) }
            }
            fn magnitude(self) -> Self {
                if self.wide().is_nan() { self.quiet() } else { Self::from_register(self.bits() & !$sign) }
            }
            fn flushed(self, how: How) -> Self {
                if how.flush && self.wide().abs() < Self::NORMAL { Self::from_register(self.bits() & $sign) } else { self }
            }
            fn smaller(self, how: How, other: Self) -> Self {
                choose(self, other, how, |a, b| a < b || a == b && a.is_sign_negative())
            }
            fn larger(self, how: How, other: Self) -> Self {
                choose(self, other, how, |a, b| a > b || a == b && a.is_sign_positive())
            }
            fn approximate(self, how: How, function: fn(f64) -> f64) -> Self {
                Self::finish(how, function(self.enter(how)), || 0.0)
            }
        }
    )*};
}

float! {
    F16, 1 << 15;
    Bf16, 1 << 15;
    f32, 1 << 31;
    f64, 1 << 63;
}

/// Defines functions of pairs that apply the same function to both numbers.
macro_rules! of_each {
    ($($name:ident($($how:ident)? $(; $operand:ident)*);)*) => {$(
        fn $name(self $(, $how: How)? $(, $operand: Self)*) -> Self {
            Self(self.0.$name($($how,)? $($operand.0),*), self.1.$name($($how,)? $($operand.1),*))
        }
    )*};
}

impl<T: Float> Float for Pair<T> {
    of_each! {
        add(how; other);
        sub(how; other);
        mul(how; other);
        fma(how; other; third);
        negate();
        magnitude();
        flushed(how);
        smaller(how; other);
        larger(how; other);
    }
    fn approximate(self, how: How, function: fn(f64) -> f64) -> Self {
        Self(self.0.approximate(how, function), self.1.approximate(how, function))
    }
}

/// Returns the minimum or maximum. A NaN counts as absent, unless the modifier `.NaN` asks for NaN results.
fn choose<T: Number>(a: T, b: T, how: How, first: fn(f64, f64) -> bool) -> T {
    let (x, y) = (a.enter(how), b.enter(how));
    let chosen = match (x.is_nan(), y.is_nan()) {
        (true, true) => return T::NAN.or_nan([b, a]),
        (true, false) | (false, true) if how.nan => return T::NAN,
        (true, false) => y,
        (false, true) => x,
        (false, false) if first(x, y) => x,
        (false, false) => y,
    };
    T::round(chosen, 0.0, Rounding::Near)
}

pub(crate) fn divide<T: Number>(how: How, x: T, y: T) -> T {
    let (a, b) = (x.enter(how), y.enter(how));
    let near = a / b;
    // The sign of a / b - near is the sign of a - near * b, reversed if b is negative.
    T::finish(how, near, || match (near.is_infinite(), b == 0.0 || a.is_infinite()) {
        (true, true) => 0.0,
        (true, false) => -near,
        (false, _) => sign_of_sum(-near, b, a, 0.0) * b.signum(),
    })
    .or_nan([x, y])
}

pub(crate) fn root<T: Number>(how: How, x: T) -> T {
    let a = x.enter(how);
    let near = a.sqrt();
    T::finish(how, near, || sign_of_sum(-near, near, a, 0.0)).or_nan([x])
}

pub(crate) use scalar;
