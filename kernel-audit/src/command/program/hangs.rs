//! Says that a call hangs, while it does. Processes tell of their hangs; the rest stands in their records.

use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use kernel_registry_command::terminal;

use super::signals;
use crate::command::how_run::HowRun;
use crate::command::process::{Audit, HangKey, Own, hang_key, record_files};
use crate::command::report::hang;
use crate::command::report::words::Time;

/// The hangs of a program that runs.
pub(super) struct Hangs {
    pub(super) records: PathBuf,
    pub(super) own: Own,
    pub(super) run: HowRun,
    /// The hangs that were said.
    pub(super) said: HashSet<HangKey>,
}

/// The message of a process on a hang.
pub(super) struct Told {
    key: HangKey,
    /// The words of the process, for a hang that cannot be found in a record.
    words: String,
}

impl Told {
    /// Reads a message, without the word with which all messages begin.
    pub(super) fn read(message: &str) -> Option<Told> {
        let (key, words) = message.split_once('\n')?;
        let (process, begun) = key.split_once(' ')?;
        Some(Told { key: (process.parse().ok()?, begun.parse().ok()?), words: words.to_owned() })
    }
}

impl Hangs {
    /// Says these hangs, except those that were said. Reads the records once for all: a job has many ranks that hang together.
    pub(super) fn say(&mut self, told: Vec<Told>, still_runs: bool) {
        let new: Vec<_> = told.into_iter().filter(|told| self.said.insert(told.key)).collect();
        if new.is_empty() {
            return;
        }
        let own = record_files(&self.records).into_iter().filter(|path| self.own.has(path));
        let audit = Audit::read(own).unwrap_or_default();
        for Told { key, words } in new {
            let words = self.describe(&audit, key).unwrap_or(words);
            terminal::say(format_args!("\nkernel-audit: {words}"));
        }
        if still_runs {
            offer_to_end();
        }
    }

    /// Describes a hang, if it is in the records.
    fn describe(&self, audit: &Audit, key: HangKey) -> Option<String> {
        let mut all = audit.of_processes(|report| &report.events);
        let (process, event) = all.find(|(process, event)| hang_key(process, event) == Some(key))?;
        // A record without room for texts has no explanation.
        event.explanation.as_ref()?;
        let rank = process.report.rank.map(|_| format!(" in {}", process.name)).unwrap_or_default();
        let words = hang::in_words(process, event, &self.run);
        Some(format!("HANG for {}{rank}\n{words}", Time(event.took)))
    }
}

/// Lets Ctrl-C twice end the program, and says so in a terminal.
pub(super) fn offer_to_end() {
    signals::program_hangs();
    if io::stderr().is_terminal() {
        terminal::say("press Ctrl-C twice to end the program with a report");
    }
}
