//! Computes pseudo-random delays, which make the threads of a program run in unusual orders. A seed gives the same
//! delays in every run.

use std::str::FromStr;
use std::time::Duration;

/// The seed and the upper bound of the delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timing {
    seed: u64,
    longest: Duration,
}

impl Timing {
    pub(crate) fn new(seed: u64, longest: Duration) -> Self {
        Timing { seed, longest }
    }

    /// Returns the delay of event `number` of a kind. It doesn't depend on events of other kinds, because their order
    /// differs between runs.
    pub(crate) fn delay(&self, kind: &str, number: u64) -> Duration {
        let random =
            mix(self.seed ^ kind.bytes().fold(mix(number), |hash, byte| mix(hash ^ u64::from(byte))));
        self.longest.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// Returns the output of the generator SplitMix64 for the state `number`.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Parses a seed and the longest delay, as in `42:200us`.
impl FromStr for Timing {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (seed, longest) = text.split_once(':').ok_or(())?;
        Ok(Timing { seed: seed.parse().map_err(|_| ())?, longest: duration(longest).ok_or(())? })
    }
}

/// Parses a duration, as in `5ms`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|character: char| !character.is_ascii_digit())?;
    let number = text[..unit].parse().ok()?;
    match &text[unit..] {
        "s" => Some(Duration::from_secs(number)),
        "ms" => Some(Duration::from_millis(number)),
        "us" => Some(Duration::from_micros(number)),
        "ns" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_reproducible_and_differ() {
        let timing: Timing = "42:200us".parse().unwrap();
        assert_eq!(timing, Timing::new(42, Duration::from_micros(200)));
        let delays: Vec<_> = (0..100).map(|number| timing.delay("cuFuncLoad", number)).collect();
        assert_eq!(delays, (0..100).map(|number| timing.delay("cuFuncLoad", number)).collect::<Vec<_>>());
        assert!(delays.iter().all(|delay| *delay < Duration::from_micros(200)));
        let mean = delays.iter().sum::<Duration>() / 100;
        assert!((80..120).contains(&mean.as_micros()), "{mean:?}");
        assert_ne!(timing.delay("cuFuncLoad", 1), timing.delay("cuFuncGetName", 1));
        assert_ne!(timing.delay("cuFuncLoad", 1), Timing { seed: 43, ..timing }.delay("cuFuncLoad", 1));
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("5ms"), Some(Duration::from_millis(5)));
        assert_eq!(duration("5"), None);
        assert_eq!(duration("ms"), None);
        assert_eq!(duration("5 ms"), None);
    }
}
