//! Checks the results of approximate instructions against their error bounds.

use super::instructions::Instruction;
use super::operands::Kind;
use super::table::Bound;

/// Returns whether the result is as close to the exact one as the PTX manual promises.
pub fn allows(instruction: &Instruction, bound: Bound, operands: &[u64], answer: u64) -> bool {
    let halves = |kind| match kind {
        Kind::F16x2 => Some(Kind::F16),
        Kind::Bf16x2 => Some(Kind::Bf16),
        _ => None,
    };
    let name = &instruction.case.name;
    let kind = instruction.result;
    match halves(kind) {
        None => allows_one(name, kind, bound, operands, answer),
        Some(half) => [0, 16].into_iter().all(|shift| {
            let operands: Vec<u64> = operands.iter().map(|operand| operand >> shift & 0xffff).collect();
            allows_one(name, half, bound, &operands, answer >> shift & 0xffff)
        }),
    }
}

/// Returns the same for one number, or for one half of a packed pair.
fn allows_one(name: &str, kind: Kind, bound: Bound, operands: &[u64], answer: u64) -> bool {
    let flush = name.contains(".ftz");
    // The smallest normal number, and the number of bits of its significand.
    let (smallest, precision) = match kind {
        Kind::F16 => (2f64.powi(-14), 11),
        Kind::Bf16 => (2f64.powi(-126), 8),
        Kind::F64 => (f64::MIN_POSITIVE, 53),
        _ => (2f64.powi(-126), 24),
    };
    // A magnitude beyond the largest finite number counts as the next power of two.
    let beyond = if kind == Kind::F64 { f64::INFINITY } else { 4.0 / smallest };
    let flushed = |value: f64| if flush && value.abs() < smallest { 0f64.copysign(value) } else { value };
    let value = |bits| flushed(to_f64(kind, bits));
    // These instructions use only the upper half of an f64.
    let half = if kind == Kind::F64 && flush { !0xffff_ffff } else { !0 };
    let a = value(operands[0] & half);
    let exact = flushed(match name.split('.').next() {
        // The reciprocal of a large divisor is flushed to zero before the multiplication.
        Some("div") if name.contains(".approx") && value(operands[1]).abs() > 2f64.powi(126) => {
            a * 0f64.copysign(value(operands[1]))
        }
        Some("div") => a / value(operands[1]),
        Some("rcp") => 1.0 / a,
        Some("sqrt") => a.sqrt(),
        Some("rsqrt") => 1.0 / a.sqrt(),
        Some("sin") => a.sin(),
        Some("cos") => a.cos(),
        Some("lg2") => a.log2(),
        Some("ex2") => a.exp2(),
        Some("tanh") => a.tanh(),
        _ => panic!("{name} is not approximate"),
    });
    let (exact, answer) = (exact.clamp(-beyond, beyond), to_f64(kind, answer).clamp(-beyond, beyond));
    if exact.is_nan() || answer.is_nan() {
        return exact.is_nan() && answer.is_nan();
    }
    // With `.ftz`, a result close to the smallest normal number may be flushed to zero.
    let ulp = 2f64.powi((exact.abs().max(smallest).log2().floor() as i32).max(-1022) - (precision - 1));
    let error = match bound {
        Bound::Ulps(count) => count * ulp,
        Bound::Relative(power) => exact.abs().max(smallest) * power.exp2(),
        Bound::Absolute(power) => power.exp2(),
        Bound::Angle(power, _) if a.abs() <= std::f64::consts::TAU => power.exp2(),
        Bound::Angle(_, power) => power.exp2(),
        Bound::Logarithm(power) => exact.abs().max(1.0) * power.exp2(),
    };
    answer == exact
        || (answer - exact).abs() <= error
        || flush && answer == 0.0 && exact.abs() < 2.0 * smallest
}

fn to_f64(kind: Kind, bits: u64) -> f64 {
    match kind {
        Kind::F64 => f64::from_bits(bits),
        Kind::Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
        Kind::F16 => {
            let (exponent, mantissa) = (bits >> 10 & 31, (bits & 1023) as f64);
            let magnitude = match exponent {
                0 => mantissa / 16_777_216.0,
                31 if mantissa == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                _ => (1024.0 + mantissa) * 2f64.powi(exponent as i32 - 25),
            };
            if bits >> 15 & 1 == 0 { magnitude } else { -magnitude }
        }
        _ => f64::from(f32::from_bits(bits as u32)),
    }
}
