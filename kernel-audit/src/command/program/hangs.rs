//! Says that a call hangs, while it does. Processes tell of their hangs; the rest stands in their records.

use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kernel_registry_command::{terminal, with_causes};

use super::signals;
use crate::command::dump;
use crate::command::how_run::HowRun;
use crate::command::process::{Audit, HangKey, Own, Process, hang_key, record_files};
use crate::command::report::hang;
use crate::command::report::words::About;
use crate::record::Event;

/// The hangs of a program that runs.
pub(super) struct Hangs {
    pub(super) records: PathBuf,
    pub(super) own: Own,
    pub(super) run: HowRun,
    /// The hangs that were said.
    pub(super) said: HashSet<HangKey>,
    /// When to look at the GPUs, and for which call.
    pub(super) look_at: Option<(Instant, HangKey)>,
    pub(super) has_looked: bool,
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
        let audit = self.audit();
        for Told { key, words } in new {
            let hang = find(&audit, key);
            let words = hang.map(|(process, event)| self.describe(process, event)).unwrap_or(words);
            terminal::say(format_args!("\nkernel-audit: {words}"));
            let due =
                hang.and_then(|(_, event)| time_to_look(event)).map(|after| (Instant::now() + after, key));
            self.look_at = self.look_at.or(due);
        }
        if still_runs {
            offer_to_end();
        }
    }

    fn audit(&self) -> Audit {
        let own = record_files(&self.records).into_iter().filter(|path| self.own.has(path));
        Audit::read(own).unwrap_or_default()
    }

    /// Describes a hang.
    fn describe(&self, process: &Process, event: &Event) -> String {
        let rank = process.report.rank.map(|_| format!(" in {}", process.name)).unwrap_or_default();
        let words = hang::in_words(process, event, &self.run);
        format!("HANG for {}{rank}\n{words}", About(event.took))
    }

    /// Says what the GPUs do for which a call still waits, once half of the time is over after which `--on-hang abort` ends the process. Looks
    /// once: the others of a job wait as long as one of them is halted.
    pub(super) fn look(&mut self) {
        let Some((_, key)) = self.look_at.filter(|(at, _)| Instant::now() >= *at && !self.has_looked) else {
            return;
        };
        self.has_looked = true;
        let audit = self.audit();
        let hang = find(&audit, key).filter(|(_, event)| !event.has_returned && !self.run.is_simulated());
        match hang.and_then(|(process, _)| dump::before_end(&process.report)) {
            Some(Ok(look)) => terminal::say(format_args!("\nkernel-audit: what the GPUs do\n{look}")),
            Some(Err(why)) => terminal::say(format_args!("kernel-audit: {}", with_causes(&why))),
            None => {}
        }
    }
}

/// Finds a hang in the records. A record without room for texts has no explanation.
fn find(audit: &Audit, key: HangKey) -> Option<(&Process, &Event)> {
    let mut all = audit.of_processes(|report| &report.events);
    all.find(|(process, event)| hang_key(process, event) == Some(key) && event.explanation.is_some())
}

/// Returns how long to wait for a call that may just wait for long work, and not for a load, until the GPUs are looked at.
fn time_to_look(event: &Event) -> Option<Duration> {
    let explanation = event.explanation.as_ref().filter(|its| !its.waits_for_load)?;
    let half = Duration::from_millis(explanation.aborts_after_ms? / 2);
    Some(half.saturating_sub(Duration::from_nanos(event.took)))
}

/// Lets Ctrl-C twice end the program, and says so in a terminal.
pub(super) fn offer_to_end() {
    signals::program_hangs();
    if io::stderr().is_terminal() {
        terminal::say("press Ctrl-C twice to end the program with a report");
    }
}
