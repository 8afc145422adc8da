//! Reads the records that processes left, and gives the processes names that tell them apart.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use kernel_registry_command::Failure as Shared;
use serde::Serialize;

use crate::causes::is_preloadable;
use crate::command::failure::Failure;
use crate::command::how_run::HowRun;
use crate::command::symbols;
use crate::hang::Hanging;
use crate::record::{CallInProgress, Event, Kind, LARGEST, Report, SharedText, Time, open_plain, read};
use crate::{Cause, causes};

/// The name of the folder beside records in which processes keep copies of images.
pub(crate) const IMAGES: &str = "images";

/// The contents of all records together.
#[derive(Default)]
pub(crate) struct Audit {
    /// The processes, in the order of their ranks if all have one, or else of their numbers.
    pub(crate) processes: Vec<Process>,
    /// A sentence for each file that could not be read.
    pub(crate) left_out: Vec<String>,
    /// The folders [`IMAGES`] beside the records.
    pub(crate) copies: BTreeSet<PathBuf>,
    /// Whether a file says that processes are ready (`--ready-file`).
    pub(crate) has_ready_file: bool,
    /// The hangs that were explained in the same terminal when they happened.
    pub(crate) said: HashSet<HangKey>,
    /// Whether hangs of several processes were explained together when they happened.
    pub(crate) was_together: bool,
    /// How the program was run.
    pub(crate) run: HowRun,
    /// How the program ended, and where. `None` if these are records of earlier programs.
    pub(crate) ended: Option<Outcome>,
    /// Whether Ctrl-C ended the program and its children.
    pub(crate) was_interrupted: bool,
}

/// How a program ended, and where.
#[derive(Clone, Serialize)]
pub(crate) struct Outcome {
    /// The exit code, unless a signal ended it.
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// The name of the machine.
    pub(crate) host: String,
    /// The file of the driver.
    pub(crate) driver: PathBuf,
}

/// The process of a hang, and when the call began.
pub(crate) type HangKey = (u32, u64);

/// Returns the key of an event that is a hang.
pub(crate) fn hang_key(process: &Process, event: &Event) -> Option<HangKey> {
    (event.kind == Kind::Hang).then_some((process.report.process, event.begun))
}

/// A process that called the driver.
#[derive(Clone)]
pub(crate) struct Process {
    /// The contents of the process's record. The rank may come from the program's arguments.
    pub(crate) report: Report,
    /// The name: `rank 3`, `process 4711`, or `worker 4711` of one of Python's multiprocessing. No two processes have the same.
    pub(crate) name: String,
    /// The number of the process, or another number if an earlier process has the same: each machine and container
    /// numbers its own processes.
    pub(crate) number: u32,
    /// How much later than the first process this process began, in nanoseconds.
    pub(crate) offset: u64,
}

impl Audit {
    /// Fails if there are findings, or if findings may be missing.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        match (self.findings(), self.left_out.len(), self.lack_threads()) {
            (0, 0, 0) => Ok(()),
            (0, 0, count) => Err(Failure::LackThreads { count }),
            (0, count, _) => Err(Failure::LeftOut { count }),
            (count, ..) => Err(Failure::Findings { count }),
        }
    }

    /// Reads records. Leaves out damaged records and records of another version.
    pub(crate) fn read(files: impl IntoIterator<Item = PathBuf>) -> Result<Audit, Failure> {
        let (mut reports, mut left_out, mut copies) = (Vec::new(), Vec::new(), BTreeSet::new());
        for path in files {
            copies.insert(path.with_file_name(IMAGES));
            let why = match read_record(&path) {
                Ok(bytes) if bytes.is_empty() => {
                    "it is empty, because there was no room for it on the disk".to_owned()
                }
                Ok(bytes) => match read(&bytes) {
                    Ok(report) => {
                        reports.push(report);
                        continue;
                    }
                    Err(why) => why.to_string(),
                },
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(Shared::Missing { path }.into());
                }
                Err(error) => error.to_string(),
            };
            left_out.push(format!("`{}` is left out: {why}", path.display()));
        }
        symbols::resolve(&mut reports);
        Ok(Audit { processes: with_names(reports), left_out, copies, ..Audit::default() })
    }

    /// Returns the audit of one of the processes alone.
    pub(crate) fn alone(&self, process: &Process) -> Audit {
        Audit {
            processes: vec![process.clone()],
            left_out: self.left_out.clone(),
            ended: self.ended.clone(),
            ..Audit::default()
        }
    }

    /// Splits the processes into those that are shown and the rest. Where there is no room for all, processes with
    /// findings come first.
    pub(crate) fn split_processes(&self, room: usize) -> (Vec<&Process>, Vec<&Process>) {
        let mut shown: Vec<_> = self.processes.iter().collect();
        shown.sort_by_key(|process| self.processes.len() > room && process.findings().next().is_none());
        let rest = shown.split_off(room.min(shown.len()));
        (shown, rest)
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.of_processes(|report| &report.events).map(|(_, event)| event)
    }

    /// Returns a list of all reports, each event with its process.
    pub(crate) fn of_processes(
        &self,
        list: fn(&Report) -> &Vec<Event>,
    ) -> impl Iterator<Item = (&Process, &Event)> {
        self.processes.iter().flat_map(move |its| list(&its.report).iter().map(move |event| (its, event)))
    }

    /// Returns what ended a process that did not end by itself, or the ways in which it may have ended.
    pub(crate) fn end_of(&self, process: &Process) -> Option<&'static str> {
        if process.report.ended {
            None
        } else if self.run.hangs_end && process.of_kind(Kind::Hang).next().is_some() {
            Some("ended by `--on-hang abort`")
        } else if self.was_interrupted {
            Some("ended by Ctrl-C")
        } else {
            Some("killed, ended without exit handlers, or still running")
        }
    }

    /// Sets how the program was run. Each finding that a preload prevents gets the commands for that, and each hang its sentences.
    pub(crate) fn set_run(&mut self, run: HowRun) {
        for Process { report, .. } in &mut self.processes {
            for hang in report.events.iter_mut().filter(|event| event.kind == Kind::Hang) {
                let words = Hanging::new(hang, report.uses_kernel_registry).in_words(&hang.stack);
                hang.words = words.into();
            }
            let commands = |hangs| -> Vec<_> {
                run.cure(report, hangs).commands.into_iter().map(SharedText::from).collect()
            };
            let (of_hangs, of_others) = (commands(true), commands(false));
            for event in report.events.iter_mut().filter(|event| is_prevented_by_preload(event)) {
                event.commands.clone_from(if event.kind == Kind::Hang { &of_hangs } else { &of_others });
            }
        }
        self.run = run;
    }

    /// Returns the causes of the findings of all processes.
    pub(crate) fn causes(&self) -> Vec<Cause<'_>> {
        causes(self.processes.iter().map(|process| &process.report))
    }

    pub(crate) fn findings(&self) -> usize {
        let of_process = |process: &Process| {
            process.findings().count()
                + usize::try_from(process.report.dropped_findings).unwrap_or(usize::MAX)
        };
        self.processes.iter().map(of_process).fold(0, usize::saturating_add)
    }

    /// Returns the number of processes that lack a thread of the audit.
    pub(crate) fn lack_threads(&self) -> usize {
        self.processes.iter().filter(|process| process.report.lacks_thread).count()
    }
}

impl Process {
    /// Returns the findings: calls that were late after the program was ready, would have waited for a resident kernel,
    /// or did not return.
    pub(crate) fn findings(&self) -> impl Iterator<Item = &Event> {
        self.report.events.iter().filter(|event| is_finding(event))
    }

    /// Converts a time of this process to nanoseconds since the first process began.
    pub(crate) fn on_axis(&self, time: u64) -> u64 {
        self.offset.saturating_add(time)
    }

    /// Returns when the process was ready, in nanoseconds since the first process began.
    pub(crate) fn ready_at(&self) -> Option<u64> {
        Some(self.on_axis(self.report.ready?))
    }

    /// Returns the calls in progress when a process was killed, in words. A call that hangs is told as such, and a process that ended by itself
    /// may have left a thread in a call.
    pub(crate) fn last_calls(&self) -> Vec<String> {
        let Report { events, in_progress, ended, .. } = &self.report;
        let hangs = |thread: u32| events.iter().any(|event| event.is_endless() && event.thread == thread);
        let last = in_progress.iter().filter(|last| !ended && !hangs(last.thread));
        let in_words = |CallInProgress { call, thread, took, .. }: &CallInProgress| {
            let since = if *took > 0 { format!(" for {}", Time(*took)) } else { String::new() };
            // A record without room for texts has no names.
            let call = if call.is_empty() { "a call".to_owned() } else { format!("`{call}`") };
            format!("last seen in {call}{since}, in thread {thread}")
        };
        last.map(in_words).collect()
    }

    /// Returns a sentence for each kind of data that the record had no room for.
    pub(crate) fn missing(&self) -> Vec<String> {
        let report = &self.report;
        let nameless = report.events.iter().filter(|event| event.call.is_empty()).count() as u64;
        let missing = [
            (
                report.dropped,
                "further events found no room in the record, and are in no sum: `--events` makes more, and a higher `--slow` needs less",
            ),
            (report.dropped_findings, "of these are findings"),
            (
                report.unlisted,
                "more slow calls were only counted, because listing them takes too much of the program's time: a higher `--slow` leaves them out",
            ),
            (
                report.unsaid,
                "messages could neither be written to the standard error output nor sent to the command",
            ),
            (
                report.lacks_thread.into(),
                "thread of the audit or more could not be started: hangs are not explained, and a file or a time that says ready is not seen",
            ),
            (nameless, "events have no names, because the record had no room for more texts"),
            (
                report.texts_dropped,
                "texts are left out: the record refers to more of them than records of this library do",
            ),
            (report.activity_dropped, "samples of launches found no room in the record"),
            (
                report.unwatched_threads,
                "threads found no slot in the record: their launches are not counted, and their hangs not explained",
            ),
            (
                report.unsampled_launches,
                "launches were in streams that found no room: they are in no sample, and a hang does not name these streams",
            ),
        ];
        missing
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect()
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Event> {
        self.report.events.iter().filter(move |event| event.kind == kind)
    }
}

pub(crate) fn is_finding(event: &Event) -> bool {
    event.is_finding || event.kind == Kind::Hang
}

/// Returns whether a call is a finding because it came after the program was ready.
pub(crate) fn is_late(event: &Event) -> bool {
    event.is_finding && event.kind != Kind::Hang && !event.waits_for_resident()
}

/// Returns whether an event is a finding that a preload prevents. What NVRTC compiled is not, if its result cannot be kept.
fn is_prevented_by_preload(event: &Event) -> bool {
    let is_load = match event.kind {
        Kind::Load | Kind::Image => true,
        Kind::Compile => event.reason.is_empty(),
        _ => is_preloadable(event),
    };
    is_finding(event) && is_load
}

/// Reads the record of a process.
pub(crate) fn read_one(path: &Path) -> Option<Report> {
    let mut reports: Vec<_> = read(&read_record(path).ok()?).ok().into_iter().collect();
    symbols::resolve(&mut reports);
    reports.pop()
}

/// Reads the bytes of a record. Refuses a file larger than any record, because it could fill the memory.
fn read_record(path: &Path) -> io::Result<Vec<u8>> {
    let (file, length) = open_plain(path)?;
    if length > LARGEST {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "it is larger than any record"));
    }
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Gives the processes different names, and puts them in order.
pub(crate) fn with_names(reports: Vec<Report>) -> Vec<Process> {
    let first = reports.iter().map(|report| report.started).min().unwrap_or(0);
    let mut processes: Vec<_> = reports
        .into_iter()
        .map(|mut report| {
            report.rank = report.rank.or_else(|| rank(&report.command));
            let (number, offset) = (report.process, report.started.saturating_sub(first));
            Process { name: String::new(), number, offset, report }
        })
        .collect();
    let all_ranked = processes.iter().all(|process| process.report.rank.is_some());
    processes.sort_by_key(|process| (process.report.rank.filter(|_| all_ranked), process.report.process));

    let mut of_rank = HashMap::new();
    processes
        .iter()
        .filter_map(|process| process.report.rank)
        .for_each(|rank| *of_rank.entry(rank).or_insert(0) += 1);
    let mut numbers = HashSet::new();
    let mut names = HashSet::new();
    for process in &mut processes {
        while !numbers.insert(process.number) {
            process.number = process.number.wrapping_add(1_000_000);
        }
        let own = process.report.process;
        let name = match process.report.rank {
            Some(rank) if of_rank[&rank] == 1 => format!("rank {rank}"),
            Some(rank) => format!("rank {rank}, process {own}"),
            None if !process.report.worker_of.is_empty() => format!("worker {own}"),
            None => format!("process {own}"),
        };
        let further = (2..).map(|count| format!("{name} ({count})"));
        let mut candidates = std::iter::once(name.clone()).chain(further);
        process.name = candidates.find(|name| names.insert(name.clone())).unwrap_or(name);
    }
    processes
}

/// Returns the rank that launchers pass as an argument: `--rank 3`, `--local_rank=3`.
fn rank(command: &str) -> Option<u32> {
    let words: Vec<_> = command.split_whitespace().collect();
    let value = |option: &str| {
        words.iter().enumerate().find_map(|(index, word)| {
            let rest = word.strip_prefix("--")?.replace('_', "-").strip_prefix(option)?.to_owned();
            match rest.strip_prefix('=') {
                Some(value) => value.parse().ok(),
                None if rest.is_empty() => words.get(index + 1)?.parse().ok(),
                None => None,
            }
        })
    };
    value("rank").or_else(|| value("local-rank"))
}

/// Returns the record files in a folder, in the order of their names. Records of earlier programs may be among them.
pub(crate) fn record_files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "rec")).collect();
    files.sort();
    files
}

/// Tells which records belong to one run. Other runs can write to the same folder.
#[derive(Clone, Default)]
pub(crate) struct Own {
    /// The records of earlier programs.
    earlier: HashSet<PathBuf>,
    run: String,
}

impl Own {
    /// Creates the `Own` of a new run: no record that exists now belongs to it.
    pub(crate) fn after(folder: &Path, run: String) -> Self {
        Own { earlier: record_files(folder).into_iter().collect(), run }
    }

    /// Returns whether a record is of this run, or names no run.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let run = path.file_stem().and_then(|stem| Path::new(stem).extension());
        self.is_new(path) && run.is_none_or(|run| *run == *self.run)
    }

    /// Returns whether a record is of this run, or of another run at the same time.
    pub(crate) fn is_new(&self, path: &Path) -> bool {
        !self.earlier.contains(path)
    }
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn ranks_are_read_from_the_command() {
        assert_eq!(rank("python3 train.py --local_rank=3 --x 1"), Some(3));
        assert_eq!(rank("python3 train.py --local-rank 2 --rank 10"), Some(10));
        assert_eq!(rank("python3 train.py --ranking 2 --rank"), None);
    }
}
