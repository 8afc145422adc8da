//! Which schedules a search has tried.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Which schedules a search has tried.
///
/// The text form is a phrase, such as "all 96 schedules there are".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Whether there are no further schedules.
    pub exhausted: bool,
    /// Number of schedules tried in order, since the set of points last grew. Those by chance don't count.
    pub schedules: u64,
    /// All schedules with at most this many departures were tried.
    pub departures: Option<u32>,
    /// The number of departures whose schedules were begun, but not all tried.
    pub unfinished: Option<Unfinished>,
    /// The schedules by chance.
    pub chance: Option<ChanceCoverage>,
    /// Number of runs whose schedule wasn't that of their plan, which means that the program isn't deterministic.
    pub strayed: u64,
    /// Number of all runs, including those before the set of points grew, and those that shrank the failing plan.
    pub runs: u64,
    /// How long the search took.
    pub elapsed: Duration,
}

/// Schedules of which the search tried only some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Their number of departures.
    pub departures: u32,
    /// How many schedules have at most that many departures.
    pub schedules: u64,
}

/// Schedules that were tried by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChanceCoverage {
    /// How many.
    pub schedules: u64,
    /// How many ordering constraints a failure may need to be found with the probability.
    pub depth: u32,
    /// The largest number of parties in a run.
    pub parties: u64,
    /// The largest number of choices in a run.
    pub length: u64,
}

impl ChanceCoverage {
    /// Returns `n` such that each schedule finds a given failure of the depth with a probability of at least `1 / n`.
    pub fn odds(&self) -> u128 {
        let length = u128::from(self.length.max(1));
        let choices = length.saturating_pow(self.depth.saturating_sub(1));
        u128::from(self.parties.max(1)).saturating_mul(choices)
    }
}

impl Display for Coverage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.in_order());
        parts.extend(self.chance.as_ref().map(ChanceCoverage::to_string));
        if parts.is_empty() {
            return f.write_str("no schedules");
        }
        f.write_str(&parts.join(", and "))?;
        match self.strayed {
            0 => Ok(()),
            1 => f.write_str(", 1 of which may have run in another order than planned, as something else matters: threads that sleep or compute for long, time, or chance"),
            many => {
                write!(
                    f,
                    ", {} of which may have run in other orders than planned, as something else matters: threads that sleep or compute for long, time, or chance",
                    thousands(many)
                )
            }
        }
    }
}

impl Coverage {
    /// Describes the schedules that were tried in order, if any.
    fn in_order(&self) -> Option<String> {
        let schedules = thousands(self.schedules);
        if let Some(Unfinished { departures, schedules: all }) = self.unfinished {
            let all = count(all, "schedule");
            return (self.schedules > 0)
                .then(|| format!("{schedules} of the {all} with {}", at_most(departures)));
        }
        let departures = self.departures?;
        Some(match self.schedules {
            1 if self.exhausted => "the only schedule there is".to_owned(),
            _ if self.exhausted => format!("all {schedules} schedules there are"),
            1 => "the usual order".to_owned(),
            // Their number isn't known if they vary from run to run.
            _ if self.strayed > 0 => format!("{schedules} schedules with {}", at_most(departures)),
            _ => format!("all {schedules} schedules with {}", at_most(departures)),
        })
    }
}

fn at_most(departures: u32) -> String {
    format!("at most {} from the usual order", count(departures.into(), "departure"))
}

impl Display for ChanceCoverage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let schedules = if self.schedules == 1 { "1".to_owned() } else { thousands(self.schedules) };
        write!(
            f,
            "{schedules} by chance (PCT of depth {}: each finds a given failure of that depth with a probability of at \
             least 1 in {})",
            self.depth,
            thousands(self.odds())
        )
    }
}

fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// Formats a number with separators between thousands.
fn thousands(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
