//! Says that a call hangs, while it does. Processes tell of their hangs; the rest stands in their records.

use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use kernel_registry_command::terminal;

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
    /// Says each of these hangs, unless it was said.
    pub(super) fn say(&mut self, told: Vec<Told>) {
        for Told { key, words } in told {
            if self.said.insert(key) {
                terminal::say(format_args!("\nkernel-audit: {}", self.find(key).unwrap_or(words)));
                if io::stderr().is_terminal() {
                    terminal::say("press Ctrl-C twice to end the program with a report");
                }
            }
        }
    }

    /// Finds a hang in the records, and describes it.
    fn find(&self, key: HangKey) -> Option<String> {
        let own = record_files(&self.records).into_iter().filter(|path| self.own.has(path));
        let audit = Audit::read(own).ok()?;
        let mut all = audit.of_processes(|report| &report.events);
        let (process, event) = all.find(|(process, event)| hang_key(process, event) == Some(key))?;
        let rank = process.report.rank.map(|_| format!(" in {}", process.name)).unwrap_or_default();
        Some(format!("HANG for {}{rank}\n{}", Time(event.took), hang::in_words(process, event, &self.run)))
    }
}
