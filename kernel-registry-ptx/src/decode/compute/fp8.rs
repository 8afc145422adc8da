//! Finds the functions of conversions with formats that have no arithmetic: 8-bit floating point, tf32, and
//! packed integers.

use crate::decode::compute::float::{Bf16, F16, Number, Pair, narrow, scalar};
use crate::decode::opcode::Opcode;
use crate::types::{Compute, How, Rounding, Scalar, Type, each, lanes};

/// A number with 4 bits of exponent and 3 of mantissa. The format has no infinity. Results that are too large
/// become the largest number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct E4m3(pub u8);

/// A number with 5 bits of exponent and 2 of mantissa.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct E5m2(pub u8);

scalar!(E4m3: u8, E5m2: u8);

impl Number for E4m3 {
    const NAN: Self = Self(0x7f);
    const NORMAL: f64 = 1.0 / 64.0;
    const MANTISSA: u32 = 3;
    fn wide(self) -> f64 {
        let (exponent, mantissa) = (i32::from(self.0 >> 3 & 15), f64::from(self.0 & 7));
        let magnitude = match (self.0 & 0x7f, exponent) {
            (0x7f, _) => f64::NAN,
            (_, 0) => mantissa / 512.0,
            _ => (8.0 + mantissa) * 2f64.powi(exponent - 10),
        };
        if self.0 >> 7 == 0 { magnitude } else { -magnitude }
    }
    fn round(near: f64, _: f64, rounding: Rounding) -> Self {
        let near = near.clamp(-448.0, 448.0);
        // Where other formats have infinity and NaN, this format has its largest numbers. These are rounded
        // at half their size.
        let large = near.abs() >= 256.0;
        let half = narrow(if large { near / 2.0 } else { near }, rounding, Self::MANTISSA, 4) as u8;
        Self(half + 8 * u8::from(large))
    }
}

impl Number for E5m2 {
    const NAN: Self = Self(0x7f);
    const NORMAL: f64 = 1.0 / 16384.0;
    const MANTISSA: u32 = 2;
    fn wide(self) -> f64 {
        F16(u16::from(self.0) << 8).wide()
    }
    fn round(near: f64, _: f64, rounding: Rounding) -> Self {
        Self(narrow(near.clamp(-57344.0, 57344.0), rounding, Self::MANTISSA, 5) as u8)
    }
}

/// The types that occur only in these conversions.
const NAMES: [&str; 4] = ["e4m3x2", "e5m2x2", "tf32", "pack"];

/// Returns whether a conversion has one of these types.
pub(crate) fn is_narrow(parts: &[&str]) -> bool {
    parts.iter().any(|part| NAMES.contains(part))
}

/// Returns the function of `cvt.pack`, which saturates two numbers and puts them in the low bits, below those
/// of a third operand.
fn pack(opcode: &mut Opcode<'_>) -> Option<(Compute, How)> {
    fn packed(a: i32, b: i32, above: u32, (bits, low, high): (u32, i32, i32)) -> u32 {
        let part = |value: i32| value.clamp(low, high) as u32 & (u32::MAX >> (32 - bits));
        above.checked_shl(2 * bits).unwrap_or(0) | part(a) << bits | part(b)
    }
    let small = opcode.take_any(&["s4", "u4"]);
    let kinds = opcode.types.split_off(0);
    let function = match (opcode.take("sat"), small, &kinds[..]) {
        (true, None, [Type::S16, Type::S32]) => {
            lanes!(_, |a: i32, b: i32| packed(a, b, 0, (16, -32768, 32767)))
        }
        (true, None, [Type::U16, Type::S32]) => lanes!(_, |a: i32, b: i32| packed(a, b, 0, (16, 0, 65535))),
        (true, None, [Type::S8, Type::S32, Type::U32]) => {
            lanes!(_, |a: i32, b: i32, c: u32| packed(a, b, c, (8, -128, 127)))
        }
        (true, None, [Type::U8, Type::S32, Type::U32]) => {
            lanes!(_, |a: i32, b: i32, c: u32| packed(a, b, c, (8, 0, 255)))
        }
        (true, Some("s4"), [Type::S32, Type::U32]) => {
            lanes!(_, |a: i32, b: i32, c: u32| packed(a, b, c, (4, -8, 7)))
        }
        (true, Some(_), [Type::S32, Type::U32]) => {
            lanes!(_, |a: i32, b: i32, c: u32| packed(a, b, c, (4, 0, 15)))
        }
        _ => return None,
    };
    Some((function, How::default()))
}

/// Returns the function of a `cvt` from or to a pair of 8-bit numbers, to tf32, or to packed integers.
pub(crate) fn convert(opcode: &mut Opcode<'_>) -> Option<(Compute, How)> {
    let name = opcode.take_any(&NAMES)?;
    if name == "pack" {
        return pack(opcode);
    }
    if name == "tf32" {
        let away = opcode.take("rna");
        if !away && !opcode.take("rn") || opcode.kind()? != Type::F32 {
            return None;
        }
        return Some((
            match away {
                true => lanes!(_, |a: u32| tf32(a, 0x1000)),
                // A tie rounds to even.
                false => lanes!(_, |a: u32| tf32(a, 0xfff + (a >> 13 & 1))),
            },
            How::default(),
        ));
    }
    let finite = opcode.take("satfinite");
    let how = opcode.how();
    let first = name == "e4m3x2";
    let function = match (opcode.kind()?, finite) {
        (Type::F32, true) if first => lanes!(how, |a: f32, b: f32| eighths::<E4m3>(how, a.wide(), b.wide())),
        (Type::F32, true) => lanes!(how, |a: f32, b: f32| eighths::<E5m2>(how, a.wide(), b.wide())),
        (Type::F16x2, true) if first => {
            lanes!(how, |a: Pair<F16>| eighths::<E4m3>(how, a.1.wide(), a.0.wide()))
        }
        (Type::F16x2, true) => lanes!(how, |a: Pair<F16>| eighths::<E5m2>(how, a.1.wide(), a.0.wide())),
        (Type::Bf16x2, true) if first => {
            lanes!(how, |a: Pair<Bf16>| eighths::<E4m3>(how, a.1.wide(), a.0.wide()))
        }
        (Type::Bf16x2, true) => lanes!(how, |a: Pair<Bf16>| eighths::<E5m2>(how, a.1.wide(), a.0.wide())),
        (Type::F16x2, false) if first => lanes!(how, |a: u16| halves::<E4m3>(how, a)),
        (Type::F16x2, false) => lanes!(how, |a: u16| halves::<E5m2>(how, a)),
        _ => return None,
    };
    Some((function, how))
}

/// Rounds an f32 to 10 bits of mantissa: adds `tie`, which decides how ties round, and cuts off the other
/// bits.
fn tf32(bits: u32, tie: u32) -> u32 {
    if bits & 0x7fff_ffff >= 0x7f80_0000 { bits } else { (bits + tie) & !0x1fff }
}

/// Packs two numbers as 8-bit numbers, with the second in the low byte.
fn eighths<T: Number>(how: How, high: f64, low: f64) -> u16 {
    let byte = |value: f64| T::finish_exact(how, value, 0.0).bits() as u16;
    byte(high) << 8 | byte(low)
}

/// Unpacks two 8-bit numbers into f16.
fn halves<T: Number>(how: How, pair: u16) -> Pair<F16> {
    let half = |bits: u16| F16::finish_exact(how, T::from_register(bits.into()).wide(), 0.0);
    Pair(half(pair & 0xff), half(pair >> 8))
}
