//! Records of runs: written by the run, read by the search.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

use crate::chooser::{Choice, Misfit};
use crate::party::Party;
use crate::plan::{Departure, Plan, Point};
use crate::text::{ParseError, Reason, escape, number, unescape};

/// What became of a run, as far as it wrote it down.
///
/// ```
/// use kernel_registry_schedule::{Kind, Record};
///
/// let text = "choice\thost 0\t0\thost 1\thost 0\thost 1\noutcome\tdeadlock\teveryone waits\nchoice\tho";
/// let record = Record::read(text)?;
/// assert_eq!(record.departures()[0].to_string(), "before host 0 step 0 run host 1");
/// assert_eq!(record.kind(), Kind::Deadlock);
/// # Ok::<(), kernel_registry_schedule::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The choices that had more than one option.
    pub choices: Vec<Choice>,
    /// What was done, if the run was asked for details.
    pub steps: Vec<Step>,
    /// Instructions that were newly found to conflict.
    pub points: BTreeSet<Point>,
    /// How the run ended: its first failure, or that it passed. `None` if it crashed before it could tell.
    pub outcome: Option<(Kind, String)>,
    /// Names of parties for a reader, if the run was asked for details.
    pub names: BTreeMap<Party, String>,
    /// Whether a thread slept or computed for so long that it wasn't waited for: then its order was left to chance.
    pub away: bool,
    /// Number of distinct parties among the options of all choices.
    pub parties: usize,
}

/// Something that a party did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The party.
    pub party: Party,
    /// What it did, for a reader.
    pub text: String,
    /// How many choices had been recorded before.
    pub choices: usize,
}

/// A line of a record.
///
/// A run appends lines without buffering, so a crash loses at most the end of the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A choice among several options.
    Choice(Choice),
    /// Something was done.
    Step {
        /// Who did it.
        party: Party,
        /// What was done.
        text: String,
    },
    /// A party has a name that says more than its number.
    Name {
        /// The party.
        party: Party,
        /// Its name for a reader.
        name: String,
    },
    /// A thread wasn't waited for.
    Away,
    /// An instruction was newly found to conflict.
    Point(Point),
    /// The run ended.
    Outcome {
        /// How.
        kind: Kind,
        /// Details for a reader.
        text: String,
    },
}

/// The exit code of a process that its scheduler has ended, because the run had failed.
pub const ENDED: i32 = 86;

/// How the process of a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ended with this exit code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It was killed because it ran for longer than this.
    Late(Duration),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Without a failure.
    Passed,
    /// Everyone waits for someone else.
    Deadlock,
    /// Conflicting accesses weren't ordered.
    Race,
    /// The test panicked or an assertion failed.
    Failed,
    /// A kernel or a call of the driver was faulty.
    Fault,
    /// The process ended without an outcome.
    Crashed,
    /// A limit of steps or time was exceeded.
    Unending,
    /// The plan was strict and couldn't be followed.
    Misfit,
}

impl Record {
    /// Parses the lines that a run has written.
    ///
    /// A last line without its newline was truncated by a crash, and is ignored. Whoever supervises the run should therefore
    /// set `outcome` and not append an entry to the file.
    ///
    /// # Errors
    ///
    /// If a complete line is none that a run writes.
    pub fn read(text: &str) -> Result<Record, ParseError> {
        let mut record = Record::default();
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        for (index, line) in complete.split('\n').enumerate().filter(|(_, line)| !line.is_empty()) {
            let entry = line.parse().map_err(|reason| ParseError { line: index + 1, reason })?;
            record.add(entry);
        }
        record.parties =
            record.choices.iter().flat_map(|choice| &choice.options).collect::<BTreeSet<_>>().len();
        Ok(record)
    }

    /// Returns how the run's schedule differs from the usual order.
    ///
    /// A run whose plan has these departures, and no chance, is the same run again.
    pub fn departures(&self) -> Vec<Departure> {
        self.choices.iter().filter_map(Choice::departure).collect()
    }

    /// Returns how the run ended.
    pub fn kind(&self) -> Kind {
        self.outcome.as_ref().map_or(Kind::Crashed, |(kind, _)| *kind)
    }

    /// Returns what to call a party.
    pub fn name(&self, party: Party) -> String {
        self.names.get(&party).cloned().unwrap_or_else(|| party.to_string())
    }

    /// Adds the outcome that a run of the plan couldn't write itself: what its process wrote to its outputs, and how it ended.
    ///
    /// If the run has found a failure, its own outcome stays. A run that passed without having made
    /// all departures of a strict plan doesn't fit it.
    pub fn close(&mut self, end: End, output: &str, plan: &Plan) {
        let output = tail(output);
        // What the scheduler has found stays, whatever became of the process, which may be a child of the one that ended.
        if let Some((_, text)) = self.outcome.as_mut().filter(|(kind, _)| *kind != Kind::Passed) {
            if !output.is_empty() {
                text.push_str("\nThe program had written:\n");
                text.push_str(output);
            }
            return;
        }
        let (kind, words) = match end {
            End::Code(0) => match self.unused(plan) {
                Some(misfit) => (Kind::Misfit, misfit.to_string()),
                None => (Kind::Passed, String::new()),
            },
            End::Code(code) => (Kind::Failed, format!("the process ended with code {code}")),
            End::Signal(signal) => (Kind::Crashed, format!("signal {signal} ended the process")),
            End::Late(longest) => {
                (Kind::Unending, format!("the process ran for more than {} s", longest.as_secs_f32()))
            }
        };
        let output = if matches!(kind, Kind::Passed | Kind::Misfit) { "" } else { output };
        let separator = if words.is_empty() || output.is_empty() { "" } else { ":\n" };
        self.outcome = Some((kind, format!("{words}{separator}{output}")));
    }

    /// Returns the first departure of a strict plan that the run never got to.
    pub fn unused(&self, plan: &Plan) -> Option<Misfit> {
        let made = self.departures();
        let departure = plan.departures.iter().find(|departure| !made.contains(departure));
        departure.filter(|_| plan.strict).map(|departure| Misfit::Unused { departure: *departure })
    }

    fn add(&mut self, entry: Entry) {
        match entry {
            Entry::Choice(choice) => self.choices.push(choice),
            Entry::Step { party, text } => self.steps.push(Step { party, text, choices: self.choices.len() }),
            Entry::Name { party, name } => {
                self.names.insert(party, name);
            }
            Entry::Away => self.away = true,
            Entry::Point(point) => {
                self.points.insert(point);
            }
            // A test may go on after a failure, and pass.
            Entry::Outcome { kind, text } if matches!(self.outcome, None | Some((Kind::Passed, _))) => {
                self.outcome = Some((kind, text));
            }
            Entry::Outcome { .. } => {}
        }
    }
}

/// Of a program's output, these many bytes are kept.
const MOST_OUTPUT: usize = 16 << 10;

/// Returns the end of a program's output.
fn tail(output: &str) -> &str {
    let output = output.trim_end();
    let start = output.len().saturating_sub(MOST_OUTPUT);
    let start = (start..=output.len()).find(|start| output.is_char_boundary(*start)).unwrap_or(0);
    &output[start..]
}

impl Display for Entry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Choice(Choice { party, usual, step, options }) => {
                write!(f, "choice\t{usual}\t{step}\t{party}")?;
                options.iter().try_for_each(|option| write!(f, "\t{option}"))
            }
            Entry::Step { party, text } => write!(f, "step\t{party}\t{}", escape(text)),
            Entry::Name { party, name } => write!(f, "name\t{party}\t{}", escape(name)),
            Entry::Away => f.write_str("away"),
            Entry::Point(Point { kernel, line }) => write!(f, "point\t{line}\t{}", escape(kernel)),
            Entry::Outcome { kind, text } => write!(f, "outcome\t{kind}\t{}", escape(text)),
        }
    }
}

impl FromStr for Entry {
    type Err = Reason;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let fields: Vec<&str> = line.split('\t').collect();
        Ok(match fields[..] {
            ["choice", usual, step, party, ref options @ ..] => {
                let options: Result<Vec<Party>, _> = options.iter().map(|option| option.parse()).collect();
                let choice = Choice {
                    party: party.parse()?,
                    usual: usual.parse()?,
                    step: number(step)?,
                    options: options?,
                };
                let possible = |party| choice.options.contains(party);
                if choice.options.len() < 2 || !possible(&choice.party) || !possible(&choice.usual) {
                    return Err(Reason::Choice(line.to_owned()));
                }
                Entry::Choice(choice)
            }
            ["step", party, text] => Entry::Step { party: party.parse()?, text: unescape(text)? },
            ["name", party, name] => Entry::Name { party: party.parse()?, name: unescape(name)? },
            ["away"] => Entry::Away,
            ["point", line, kernel] => Entry::Point(Point { kernel: unescape(kernel)?, line: number(line)? }),
            ["outcome", kind, text] => Entry::Outcome { kind: kind.parse()?, text: unescape(text)? },
            _ => return Err(Reason::Form(line.to_owned())),
        })
    }
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 8] = [
        Kind::Passed,
        Kind::Deadlock,
        Kind::Race,
        Kind::Failed,
        Kind::Fault,
        Kind::Crashed,
        Kind::Unending,
        Kind::Misfit,
    ];

    fn word(self) -> &'static str {
        match self {
            Kind::Passed => "passed",
            Kind::Deadlock => "deadlock",
            Kind::Race => "race",
            Kind::Failed => "failed",
            Kind::Fault => "fault",
            Kind::Crashed => "crashed",
            Kind::Unending => "unending",
            Kind::Misfit => "misfit",
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Kind {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.word() == text);
        kind.ok_or_else(|| Reason::Kind(text.to_owned()))
    }
}
