//! Reports a failing schedule to a reader, and writes its files.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::coverage::Coverage;
use crate::draw::draw;
use crate::record::{Kind, Record};
use crate::runner::Failure;

/// A failing schedule, for a reader.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The schedule.
    pub failure: &'a Failure,
    /// The record of a run with details.
    pub record: &'a Record,
    /// What was tried before.
    pub coverage: &'a Coverage,
}

impl Report<'_> {
    /// Writes the schedule, and its picture, to files with this path and the endings `schedule` and `svg`. Returns their paths.
    ///
    /// # Errors
    ///
    /// If a file can't be written.
    pub fn write(&self, base: &Path) -> io::Result<[PathBuf; 2]> {
        let paths = ["schedule", "svg"].map(|ending| {
            let mut path = base.as_os_str().to_owned();
            path.push(".");
            path.push(ending);
            PathBuf::from(path)
        });
        let record = self.shown();
        let reason = [record.reason()];
        fs::write(&paths[0], self.failure.plan.to_file(&reason))?;
        let title = base.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        fs::write(&paths[1], draw(&title, record, &|party| record.name(party)))?;
        Ok(paths)
    }

    /// Returns the record with details, if that run has failed as the one before.
    fn shown(&self) -> &Record {
        if self.record.kind() == self.failure.kind { self.record } else { &self.failure.record }
    }
}

impl Display for Report<'_> {
    /// Writes why the program fails, and in which order.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (Failure { plan, stable, .. }, record) = (self.failure, self.shown());
        writeln!(f, "{}", record.reason())?;
        match plan.departures.len() {
            0 => writeln!(f, "It fails in the usual order, in which a party goes on until it waits.")?,
            count => {
                let choices = if count == 1 { "1 choice" } else { &format!("{count} choices") };
                writeln!(
                    f,
                    "It fails after {choices} against the usual order, in which a party goes on until it waits:"
                )?;
            }
        }
        for departure in &plan.departures {
            let [run, before] = [departure.run, departure.before].map(|party| record.name(party));
            writeln!(f, "  {run} goes before step {} of {before}", departure.step + 1)?;
        }
        if !stable {
            writeln!(f, "It didn't fail again in the same order, so something else than the order matters.")?;
        }
        let runs =
            if self.coverage.runs == 1 { "1 run".to_owned() } else { format!("{} runs", self.coverage.runs) };
        write!(f, "That took {runs}.")
    }
}

impl Record {
    /// Describes how the run has failed.
    pub fn reason(&self) -> String {
        let text = self.outcome.as_ref().map_or("", |(_, text)| text.trim_end());
        let kind = match self.kind() {
            Kind::Passed => "it passed",
            Kind::Deadlock => "DEADLOCK",
            Kind::Race => "RACE",
            Kind::Failed => "FAILED",
            Kind::Fault => "FAULT",
            Kind::Crashed => "CRASHED",
            Kind::Unending => "UNENDING",
            Kind::Misfit => {
                "the schedule doesn't fit: the program has changed, or doesn't only depend on the order"
            }
        };
        if text.is_empty() { kind.to_owned() } else { format!("{kind}: {text}") }
    }
}
