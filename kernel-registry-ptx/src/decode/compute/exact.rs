//! Computes the signs of exact sums, which decide directed rounding.

/// Returns the sign of `a * b + c + d`, computed without rounding: 1, -1 or 0. Also returns 0 if any of the
/// numbers is not finite.
pub(crate) fn sign_of_sum(a: f64, b: f64, c: f64, d: f64) -> f64 {
    if ![a, b, c, d].into_iter().all(f64::is_finite) {
        return 0.0;
    }
    let sum = Wide::product(a, b).plus(Wide::product(c, 1.0)).plus(Wide::product(d, 1.0));
    match (sum.magnitude, sum.negative) {
        (0, _) => 0.0,
        (_, true) => -1.0,
        (_, false) => 1.0,
    }
}

/// A number: `magnitude` times two to the power of `exponent`. The highest set bit of the magnitude is always
/// at the same position, so the number with the larger exponent is larger.
#[derive(Clone, Copy)]
struct Wide {
    negative: bool,
    magnitude: u128,
    exponent: i32,
}

impl Wide {
    fn new(negative: bool, magnitude: u128, exponent: i32) -> Self {
        if magnitude == 0 {
            // Zero compares as smaller than all other numbers.
            return Self { negative, magnitude, exponent: i32::MIN / 2 };
        }
        // The two highest bits stay free, because a sum needs one bit more.
        let shift = magnitude.leading_zeros() as i32 - 2;
        let magnitude = if shift < 0 { lower(magnitude, 1) } else { magnitude << shift };
        Self { negative, magnitude, exponent: exponent - shift }
    }

    fn product(a: f64, b: f64) -> Self {
        let parts = |value: f64| {
            let field = (value.to_bits() >> 52 & 0x7ff) as i32;
            let mantissa = value.to_bits() & ((1 << 52) - 1) | u64::from(field != 0) << 52;
            (u128::from(mantissa), field.max(1) - 1075)
        };
        let ((a_bits, a_exponent), (b_bits, b_exponent)) = (parts(a), parts(b));
        let negative = a.is_sign_negative() != b.is_sign_negative();
        Self::new(negative, a_bits * b_bits, a_exponent + b_exponent)
    }

    /// Adds two numbers. The last bit is sticky: it is set if bits were shifted out. In every f64 the last
    /// bit is 0, so an inexact sum compares with any f64 like the exact sum.
    fn plus(self, other: Self) -> Self {
        let key = |value: &Self| (value.exponent, value.magnitude);
        let (large, small) = if key(&self) < key(&other) { (other, self) } else { (self, other) };
        let below = lower(small.magnitude, (large.exponent - small.exponent) as u32);
        let magnitude =
            if large.negative == small.negative { large.magnitude + below } else { large.magnitude - below };
        Self::new(large.negative, magnitude, large.exponent)
    }
}

/// Shifts to the right, and sets the last bit if a set bit was shifted out.
fn lower(magnitude: u128, by: u32) -> u128 {
    let kept = magnitude.checked_shr(by).unwrap_or(0);
    let back = kept.checked_shl(by).unwrap_or(0);
    kept | u128::from(back != magnitude)
}

#[cfg(test)]
mod tests {
    use super::sign_of_sum;

    #[test]
    fn bits_that_f64_would_lose_count() {
        let tiny = f64::from_bits(1);
        assert_eq!(sign_of_sum(tiny, tiny, 0.0, 0.0), 1.0);
        assert_eq!(sign_of_sum(tiny, -tiny, f64::MAX, -f64::MAX), -1.0);
        assert_eq!(sign_of_sum(tiny, tiny, -f64::MAX, 0.0), -1.0);
        assert_eq!(sign_of_sum(1.0 + f64::EPSILON, 1.0 - f64::EPSILON, -1.0, 0.0), -1.0);
        assert_eq!(sign_of_sum(f64::MAX, f64::MAX, 0.0, f64::MIN), 1.0);
    }

    #[test]
    fn zero_and_infinite_sums_have_no_sign() {
        assert_eq!(sign_of_sum(3.0, 5.0, -16.0, 1.0), 0.0);
        assert_eq!(sign_of_sum(-0.0, 1.0, 0.0, -0.0), 0.0);
        assert_eq!(sign_of_sum(f64::INFINITY, 1.0, 0.0, 0.0), 0.0);
    }
}
