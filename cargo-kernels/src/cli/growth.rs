//! Reads by how much a figure may grow: `+10%` or `+8`.

use std::fmt;
use std::str::FromStr;

/// The growth that a limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    Units(u32),
    /// In thousandths of a percent, so that limits are exact.
    Percent(u32),
}

impl FromStr for Growth {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "write it as +10% or +8";
        let number = text.strip_prefix('+').ok_or(WRONG)?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let Some(percent) = number.strip_suffix('%') else {
            return number.parse().ok().filter(|_| digits(number)).map(Growth::Units).ok_or(WRONG);
        };
        let (whole, part) = percent.split_once('.').unwrap_or((percent, "0"));
        if !digits(whole) || !digits(part) || part.is_empty() || part.len() > 3 {
            return Err(WRONG);
        }
        let thousandths = format!("{part:0<3}").parse::<u32>().ok();
        let whole = whole.parse::<u32>().ok().and_then(|whole| whole.checked_mul(1000));
        whole.zip(thousandths).and_then(|(a, b)| a.checked_add(b)).map(Growth::Percent).ok_or(WRONG)
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Growth::Units(units) => write!(f, "+{units}"),
            Growth::Percent(thousandths) => write!(f, "+{}%", f64::from(*thousandths) / 1000.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(text: &str) -> Growth {
        text.parse().unwrap()
    }

    #[test]
    fn limits_are_written_with_a_sign() {
        assert_eq!(growth("+8"), Growth::Units(8));
        assert_eq!(growth("+10%"), Growth::Percent(10_000));
        assert_eq!(growth("+2.5%").to_string(), "+2.5%");
        assert_eq!(growth("+0"), Growth::Units(0));
        for wrong in [
            "",
            "8",
            "10%",
            "-3",
            "+",
            "+%",
            "+.%",
            "+1.%",
            "++1",
            "+1.2345%",
            "+8 B",
            "+99999999999",
            "+5000000%",
        ] {
            assert!(wrong.parse::<Growth>().is_err(), "{wrong}");
        }
    }
}
