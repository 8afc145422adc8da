//! Formats text like C's printf.

/// The type of the argument that a conversion takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Word,
    Double,
    Text,
    Long,
}

impl Wanted {
    pub(crate) fn size(self) -> u64 {
        if self == Self::Word { 4 } else { 8 }
    }

    pub(crate) fn is_text(self) -> bool {
        self == Self::Text
    }
}

#[derive(Default)]
struct Conversion {
    left: bool,
    zeros: bool,
    plus: bool,
    space: bool,
    other: bool,
    width: usize,
    precision: Option<usize>,
    long: bool,
}

/// The largest width and precision that are obeyed.
const MOST: usize = 4096;

/// Formats a text. `next` returns the next argument, as a text (`Ok`) or as bits (`Err`).
pub(crate) fn format<E>(
    text: &str,
    mut next: impl FnMut(Wanted) -> Result<Result<String, u64>, E>,
) -> Result<String, E> {
    let mut out = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let begun = rest.clone();
        let mut how = Conversion::default();
        while let Some(flag) = rest.next_if(|c| "-0+ #".contains(*c)) {
            match flag {
                '-' => how.left = true,
                '0' => how.zeros = true,
                '+' => how.plus = true,
                ' ' => how.space = true,
                _ => how.other = true,
            }
        }
        let mut word = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| -> Result<i32, E> {
            if rest.next_if_eq(&'*').is_some() {
                return Ok(next(Wanted::Word)?.err().unwrap_or(0) as i32);
            }
            let mut number = 0_i32;
            while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
                number = number.saturating_mul(10).saturating_add(digit as i32);
                rest.next();
            }
            Ok(number)
        };
        // A negative width means left-justified. A negative precision counts as absent.
        let width = word(&mut rest)?;
        how.left |= width < 0;
        how.width = MOST.min(width.unsigned_abs() as usize);
        if rest.next_if_eq(&'.').is_some() {
            how.precision = usize::try_from(word(&mut rest)?).ok().map(|precision| precision.min(MOST));
        }
        while let Some(size) = rest.next_if(|c| "hlzjt".contains(*c)) {
            how.long |= size != 'h';
        }
        let Some(conversion) = rest.next() else { break };
        let wanted = match conversion {
            '%' => {
                out.push('%');
                continue;
            }
            's' => Wanted::Text,
            'p' => Wanted::Long,
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'a' | 'A' => Wanted::Double,
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' | 'c' if how.long => Wanted::Long,
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' | 'c' => Wanted::Word,
            // This is no conversion, so it is printed as text.
            _ => {
                out.push('%');
                rest = begun;
                continue;
            }
        };
        let written = match next(wanted)? {
            Ok(text) => how.precision.map_or(text.clone(), |most| text.chars().take(most).collect()),
            Err(bits) => how.number(conversion, bits),
        };
        how.pad(&mut out, &written, conversion);
    }
    Ok(out)
}

impl Conversion {
    fn number(&self, conversion: char, bits: u64) -> String {
        let signed = if self.long { bits as i64 } else { i64::from(bits as i32) };
        let least = |digits: String| format!("{digits:0>width$}", width = self.precision.unwrap_or(1));
        let prefix = |prefix: &str| if self.other && bits != 0 { prefix.to_owned() } else { String::new() };
        match conversion {
            'd' | 'i' => self.sign(signed < 0) + &least(signed.unsigned_abs().to_string()),
            'u' => least(bits.to_string()),
            'x' => prefix("0x") + &least(format!("{bits:x}")),
            'X' => prefix("0X") + &least(format!("{bits:X}")),
            'o' => prefix("0") + &least(format!("{bits:o}")),
            'p' => format!("{bits:#x}"),
            'c' => char::from(bits as u8).to_string(),
            _ => {
                let value = f64::from_bits(bits);
                let sign = self.sign(value.is_sign_negative());
                let written = self.float(conversion, value.abs());
                sign + &if conversion.is_ascii_uppercase() { written.to_uppercase() } else { written }
            }
        }
    }

    fn sign(&self, negative: bool) -> String {
        let sign = match (negative, self.plus, self.space) {
            (true, _, _) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        sign.to_owned()
    }

    fn float(&self, conversion: char, value: f64) -> String {
        if !value.is_finite() {
            return if value.is_nan() { "nan" } else { "inf" }.to_owned();
        }
        let precision = self.precision.unwrap_or(6);
        let exponential = |precision: usize| {
            let written = format!("{value:.precision$e}");
            let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
            let exponent: i32 = exponent.parse().unwrap_or(0);
            (digits.to_owned(), exponent)
        };
        let with_exponent = |digits: &str, exponent: i32| {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        };
        match conversion.to_ascii_lowercase() {
            'f' => format!("{value:.precision$}"),
            'e' => {
                let (digits, exponent) = exponential(precision);
                with_exponent(&digits, exponent)
            }
            'a' => self.hexadecimal(value),
            _ => {
                let significant = precision.max(1);
                let (digits, exponent) = exponential(significant - 1);
                let shorter = |digits: &str| match digits.contains('.') && !self.other {
                    true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
                    false => digits.to_owned(),
                };
                if exponent < -4 || exponent >= significant as i32 {
                    return with_exponent(&shorter(&digits), exponent);
                }
                let places = (significant as i32 - 1 - exponent) as usize;
                shorter(&format!("{value:.places$}"))
            }
        }
    }

    /// Formats the magnitude of a number in hexadecimal: 3 is `0x1.8p+1`.
    fn hexadecimal(&self, value: f64) -> String {
        let bits = value.to_bits();
        // Subnormal numbers have the exponent of the smallest normal number, and the digit 0 before the
        // point.
        let (normal, exponent) = (bits >> 52 != 0, (bits >> 52).max(1) as i64 - 1023);
        let exponent = if value == 0.0 { 0 } else { exponent };
        let mantissa = bits & ((1 << 52) - 1) | u64::from(normal) << 52;
        let places = self.precision.unwrap_or_else(|| 13 - (mantissa.trailing_zeros() as usize / 4).min(13));
        let dropped = 4 * 13_usize.saturating_sub(places);
        // Rounds to nearest, with ties to even.
        let half = (1 << dropped >> 1) - u64::from(dropped > 0 && mantissa >> dropped & 1 == 0);
        let rounded = (mantissa + half) >> dropped << dropped;
        let digits = format!("{:013x}", rounded & ((1 << 52) - 1));
        let point = if places > 0 || self.other { "." } else { "" };
        format!("0x{}{point}{:0<places$}p{exponent:+}", rounded >> 52, &digits[..places.min(13)])
    }

    fn pad(&self, out: &mut String, written: &str, conversion: char) {
        let missing = self.width.saturating_sub(written.chars().count());
        let integer = "diuxXo".contains(conversion) && self.precision.is_some();
        if self.left {
            out.push_str(written);
            out.extend(std::iter::repeat_n(' ', missing));
        } else if self.zeros && !integer && conversion != 's' {
            let digits = written.trim_start_matches(['-', '+', ' ']);
            let digits = digits.strip_prefix("0x").or(digits.strip_prefix("0X")).unwrap_or(digits);
            out.push_str(&written[..written.len() - digits.len()]);
            out.extend(std::iter::repeat_n('0', missing));
            out.push_str(digits);
        } else {
            out.extend(std::iter::repeat_n(' ', missing));
            out.push_str(written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str, values: &[u64]) -> String {
        let mut values = values.iter();
        let next = |wanted: Wanted| {
            let bits = *values.next().unwrap();
            Ok::<_, ()>(if wanted.is_text() { Ok("text".to_owned()) } else { Err(bits) })
        };
        format(text, next).unwrap()
    }

    #[test]
    fn text_is_formatted_like_in_c() {
        let minus = u64::from(-7i32 as u32);
        let number = |value: f64| value.to_bits();
        for (text, values, expected) in [
            ("%d%%", &[minus][..], "-7%"),
            ("[%5d|%-5d|%05d]", &[minus; 3], "[   -7|-7   |-0007]"),
            ("%+d %u %lld", &[7, minus, u64::MAX], "+7 4294967289 -1"),
            ("%x %#X %o %c", &[255, 255, 8, 65], "ff 0XFF 10 A"),
            ("%.3d|%*d", &[5, 4, 5], "005|   5"),
            ("%s|%6s|%.2s", &[0; 3], "text|  text|te"),
            ("%f %.1f %8.2f", &[number(1.5), number(-0.25), number(3.14259)], "1.500000 -0.2     3.14"),
            ("%e %E", &[number(12345.678), number(0.0)], "1.234568e+04 0.000000E+00"),
            ("%g %g %g", &[number(0.0001), number(1e10), number(100000.0)], "0.0001 1e+10 100000"),
            ("%f %f", &[number(f64::NAN), number(-f64::INFINITY)], "nan -inf"),
            ("%p", &[0x10], "0x10"),
            ("%#010x|%#010X|%#x|%#o", &[255, 255, 0, 8], "0x000000ff|0X000000FF|0|010"),
            ("[%*d|%-*d]", &[minus, 5, 3, 5], "[5      |5  ]"),
            ("%.*d|%.*f", &[minus, 5, minus, number(0.5)], "5|0.500000"),
            ("%a %.1a %a", &[number(3.0), number(1.09375), 1], "0x1.8p+1 0x1.2p+0 0x0.0000000000001p-1022"),
            (
                "%A|%012a|%#.0a",
                &[number(-0.1), number(-0.5), 0],
                "-0X1.999999999999AP-4|-0x000001p-1|0x0.p+0",
            ),
            ("%y %-5k|%d", &[5], "%y %-5k|5"),
            ("100%", &[], "100"),
        ] {
            assert_eq!(printed(text, values), expected, "{text}");
        }
    }
}
