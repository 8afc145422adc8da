//! What hangs in processes that work together, such as the ranks of a job: which of them cannot go on, and which may wait for it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_registry_audit::record::{Event, Tail};
use kernel_registry_audit::rules::{self, LOCKED, SYNCHRONIZE};

use super::comparison::names;
use super::process::{Process, named, record_files};
use super::text::paragraph;
use super::words::{Time, caller, subject};
use crate::kernel_name::readable;

/// How often the records of running processes are looked at.
pub(super) const STEP: Duration = Duration::from_millis(250);

/// Processes that are listed.
const PROCESSES: usize = 8;

/// The hangs of several processes in one text, if at least one hangs.
pub(super) struct Together<'a> {
    /// Those that have not ended.
    processes: Vec<&'a Process>,
}

impl<'a> Together<'a> {
    pub(super) fn of(processes: &'a [Process]) -> Option<Self> {
        let mut processes: Vec<_> = processes.iter().filter(|process| !process.report.ended).collect();
        let hangs = processes.iter().any(|process| longest(process).is_some());
        // Those that keep the others waiting come first.
        processes.sort_by_key(|process| (!cannot_go_on(process), longest(process).is_none()));
        (hangs && processes.len() > 1).then_some(Together { processes })
    }
}

/// The hang that says most of a process: one that waits for the device, or else the longest.
fn longest(process: &Process) -> Option<&Event> {
    let hangs = process.report.events.iter().filter(|event| event.is_endless());
    hangs.max_by_key(|hang| (waits_for_device(hang), hang.took))
}

/// Whether the call waits for all that runs on the device, and not for work that the program asked it to wait for, or for a thread that does.
fn waits_for_device(hang: &Event) -> bool {
    rules::named(&hang.rule).is_some_and(|rule| *rule != SYNCHRONIZE && *rule != LOCKED)
}

fn cannot_go_on(process: &Process) -> bool {
    longest(process).is_some_and(waits_for_device)
}

impl fmt::Display for Together<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stuck = || self.processes.iter().copied().filter(|process| cannot_go_on(process));
        let count = self.processes.len();
        let why = match stuck().count() {
            0 => "all that hang wait for kernels, which may wait for one another".to_owned(),
            stuck_ones => {
                let (its, it) = if stuck_ones == 1 { ("its", "it") } else { ("their", "them") };
                let others = if stuck_ones < count {
                    format!(", and the others may wait for {it}")
                } else {
                    String::new()
                };
                format!("{} cannot go on before {its} device is idle{others}", names(stuck()))
            }
        };
        paragraph(f, &format!("HANG across {count} processes: {why}."))?;
        for process in self.processes.iter().take(PROCESSES) {
            write_process(f, process)?;
        }
        if count > PROCESSES {
            writeln!(f, "  and {} more", count - PROCESSES)?;
        }
        let remedies: BTreeSet<_> = stuck().filter_map(longest).map(|hang| &*hang.remedy).collect();
        remedies
            .iter()
            .filter(|remedy| !remedy.is_empty())
            .try_for_each(|remedy| paragraph(f, &format!("  Remedy: {remedy}.")))
    }
}

fn write_process(f: &mut fmt::Formatter<'_>, process: &Process) -> fmt::Result {
    write!(f, "  {}: ", process.name)?;
    let Some(hang) = longest(process) else {
        return match process.report.activity.last() {
            Some(last) => writeln!(f, "in no call that hangs; launched `{}` last", readable(&last.kernel)),
            None => writeln!(f, "in no call that hangs; launched nothing"),
        };
    };
    write!(f, "in `{}`", hang.call)?;
    if !hang.subject.is_empty() {
        write!(f, " for `{}`", subject(hang))?;
    }
    write!(f, " for {}", Time(hang.took))?;
    if hang.waits_for_resident() {
        write!(f, ", while `{}` runs", readable(&hang.resident))?;
    }
    if !hang.caller.is_empty() {
        write!(f, ", by {}", caller(&hang.caller))?;
    }
    writeln!(f)
}

/// A hang: its process, its thread and when it began.
type Key = (u32, u64, u32, u64);

/// Records of processes that run, and of those that will.
#[derive(Default)]
pub(super) struct Running {
    folders: Vec<PathBuf>,
    /// Whether they are on this machine, and in no other container.
    are_here: bool,
    /// Records of earlier programs.
    earlier: HashSet<PathBuf>,
    tails: HashMap<PathBuf, Tail>,
    /// How long each hang had taken when it was seen last. Those of a process that was killed take no longer.
    took: HashMap<Key, u64>,
    said: HashSet<Key>,
    have_ended: bool,
}

impl Running {
    /// Processes of a program that this command runs.
    pub(super) fn of_program(records: PathBuf, earlier: HashSet<PathBuf>) -> Self {
        Running { folders: vec![records], are_here: true, earlier, ..Running::default() }
    }

    /// Processes that others run.
    pub(super) fn of_others(folders: Vec<PathBuf>) -> Self {
        Running { folders, ..Running::default() }
    }

    /// Looks at the records, and returns what is new: hangs that were not said before.
    pub(super) fn look(&mut self) -> Option<String> {
        for path in self.folders.iter().flat_map(|folder| record_files(folder)) {
            if !self.earlier.contains(&path)
                && !self.tails.contains_key(&path)
                && let Ok(tail) = Tail::open(&path)
            {
                self.tails.insert(path, tail);
            }
        }
        let mut reports = Vec::new();
        for tail in self.tails.values_mut() {
            if let Ok(Some(mut report)) = tail.look() {
                // One that was killed does not say that it ends.
                report.ended |= tail.is_quiet();
                reports.push(report);
            }
        }
        let mut processes = named(reports);
        self.have_ended = !processes.is_empty() && processes.iter().all(|process| process.report.ended);
        let mut hangs = HashSet::new();
        for Process { report, .. } in &mut processes {
            let (number, started) = (report.process, report.started);
            report.events.retain(|hang| {
                let key = (number, started, hang.thread, hang.begun);
                let goes_on = self.took.insert(key, hang.took).is_some_and(|before| before < hang.took);
                if goes_on {
                    hangs.insert(key);
                }
                goes_on
            });
        }
        // One that was killed could not say that it ends.
        let is_there = |number: u32| Path::new("/proc").join(number.to_string()).exists();
        processes.retain(|Process { report, .. }| {
            !self.are_here || !report.events.is_empty() || is_there(report.process)
        });
        if hangs.is_subset(&self.said) {
            return None;
        }
        let together = Together::of(&processes)?.to_string();
        self.said.extend(hangs);
        Some(together)
    }

    /// How many hangs there were, once all processes have ended.
    pub(super) fn hangs_at_end(&self) -> Option<usize> {
        self.have_ended.then_some(self.took.len())
    }
}
