//! Plans: the schedule that a run has to follow.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::party::Party;
use crate::text::{HEADER, ParseError, Reason, escape, number, unescape};

/// The schedule that a run has to follow.
///
/// The text form is also the file that a user gets of a failing schedule.
///
/// ```
/// use kernel_registry_schedule::{Party, Plan};
///
/// let text = "\
/// ## kernel-registry schedule 1
/// before host 0 step 4 run stream 1
/// strict
/// ";
/// let plan: Plan = text.parse()?;
/// assert_eq!(plan.departures[0].run, Party::Stream(1));
/// assert_eq!(plan.to_string(), text);
/// # Ok::<(), kernel_registry_schedule::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Where the schedule differs from the usual order, in the order in which a run gets there.
    pub departures: Vec<Departure>,
    /// Decides by chance wherever no departure does.
    pub chance: Option<Chance>,
    /// Instructions before which threads let others go first.
    pub points: BTreeSet<Point>,
    /// Whether a departure that can't be made is an error, and not ignored.
    pub strict: bool,
}

/// A choice that differs from the usual order.
///
/// Steps are counted per party, so a departure keeps its meaning when an earlier one is removed. If there are several before
/// the same step of a party, they're made one after the other: the first one only delays that step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Departure {
    /// The party that would usually be next.
    pub before: Party,
    /// How many steps that party has taken.
    pub step: u64,
    /// The party that goes instead.
    pub run: Party,
}

/// Parameters of a schedule by probabilistic concurrency testing (PCT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance {
    /// Seed of all that's random about the schedule.
    pub seed: u64,
    /// How many ordering constraints a failure may need: priorities change one time less.
    pub depth: u32,
    /// Expected number of choices in the run.
    pub length: u64,
}

/// An instruction before which threads let others go first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// Name of the kernel or device function.
    pub kernel: String,
    /// Line of the instruction in the PTX.
    pub line: u32,
}

impl Plan {
    /// Returns the text form with comments for the reader after its first line.
    ///
    /// A comment of several lines stays a comment.
    pub fn to_file(&self, comments: &[String]) -> String {
        let mut file = format!("{HEADER}\n");
        for line in comments.iter().flat_map(|comment| comment.split(['\n', '\r'])) {
            file.push_str(format!("# {line}").trim_end());
            file.push('\n');
        }
        file + &self.lines()
    }

    fn lines(&self) -> String {
        let departures = self.departures.iter().map(|departure| format!("{departure}\n"));
        let chance = self.chance.iter().map(|Chance { seed, depth, length }| {
            format!("chance seed {seed} depth {depth} length {length}\n")
        });
        let points =
            self.points.iter().map(|point| format!("point {} {}\n", point.line, escape(&point.kernel)));
        let strict = self.strict.then(|| "strict\n".to_owned());
        departures.chain(chance).chain(points).chain(strict).collect()
    }

    fn add(&mut self, line: &str) -> Result<(), Reason> {
        // A kernel's name may end in spaces, but `\r` in it is escaped.
        let line = line.strip_suffix('\r').unwrap_or(line);
        let form = || Reason::Form(line.to_owned());
        let blank = line.trim().is_empty();
        match line.split_once(' ') {
            _ if blank || line.starts_with('#') => {}
            None if line == "strict" => self.strict = true,
            Some(("before", _)) => self.departures.push(line.parse()?),
            Some(("chance", rest)) => {
                if self.chance.replace(parse_chance(rest).ok_or_else(form)??).is_some() {
                    return Err(Reason::Repeated("chance"));
                }
            }
            Some(("point", rest)) => {
                let (line, kernel) = rest.split_once(' ').ok_or_else(form)?;
                self.points.insert(Point { kernel: unescape(kernel)?, line: number(line)? });
            }
            _ => return Err(form()),
        }
        Ok(())
    }
}

fn parse_chance(text: &str) -> Option<Result<Chance, Reason>> {
    let words: Vec<&str> = text.split(' ').collect();
    let ["seed", seed, "depth", depth, "length", length] = words[..] else { return None };
    let chance = || Ok(Chance { seed: number(seed)?, depth: number(depth)?, length: number(length)? });
    Some(chance())
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_file(&[]))
    }
}

impl FromStr for Plan {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut plan = Plan::default();
        let mut lines = text.split('\n');
        let header = lines.next().unwrap_or_default();
        if header.trim_end() != HEADER {
            return Err(ParseError { line: 1, reason: Reason::Header(header.to_owned()) });
        }
        for (index, line) in lines.enumerate() {
            plan.add(line).map_err(|reason| ParseError { line: index + 2, reason })?;
        }
        Ok(plan)
    }
}

impl Display for Departure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "before {} step {} run {}", self.before, self.step, self.run)
    }
}

impl FromStr for Departure {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = || {
            let (before, rest) = text.strip_prefix("before ")?.split_once(" step ")?;
            let (step, run) = rest.split_once(" run ")?;
            Some((before, step, run))
        };
        let (before, step, run) = parts().ok_or_else(|| Reason::Form(text.to_owned()))?;
        Ok(Departure { before: before.parse()?, step: number(step)?, run: run.parse()? })
    }
}
