//! Finds hangs of several processes: which processes cannot go on, and which may wait for these. The ranks of a job work together; of
//! other processes only the time of their hangs is known.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::causes;
use crate::command::how_run::HowRun;
use crate::command::process::{Own, Process, is_finding, record_files, with_names};
use crate::command::report::comparison::names;
use crate::command::report::hang;
use crate::command::report::words::{self, Time, brief, caller, paragraph, subject};
use crate::hang::Lines;
use crate::record::{Event, Report, Tail, open_plain, trim};
use crate::rules;

/// How often the records of running processes are read.
pub(crate) const STEP: Duration = Duration::from_millis(250);

/// The most temporary records of processes that have ended without findings. Each takes 0.1 to 0.3 MiB, and a container may have 16.
const MOST_ENDED: usize = 32;

/// The most processes that are listed.
const PROCESSES: usize = 8;

/// The hangs of several processes as one text.
pub(crate) struct Together<'a> {
    /// The processes that have not ended.
    processes: Vec<&'a Process>,
    run: &'a HowRun,
}

impl<'a> Together<'a> {
    /// `least` is the number of processes for which there is no text, because each has one of its own.
    pub(crate) fn find(processes: &'a [Process], run: &'a HowRun, least: usize) -> Option<Self> {
        // A launcher calls the driver, and launches nothing.
        let takes_part =
            |process: &&Process| !process.report.activity.is_empty() || worst_hang(process).is_some();
        let mut processes: Vec<_> =
            processes.iter().filter(|process| !process.report.ended).filter(takes_part).collect();
        let hangs = processes.iter().any(|process| worst_hang(process).is_some());
        // Processes that keep the others waiting come first.
        processes.sort_by_key(|process| (!cannot_go_on(process), worst_hang(process).is_none()));
        (hangs && processes.len() > least).then_some(Together { processes, run })
    }

    /// Returns whether each process has a rank of its own, so that they work together. Others may have nothing to do with each other.
    fn are_ranks(&self) -> bool {
        let mut ranks = HashSet::new();
        self.processes.iter().all(|process| process.report.rank.is_some_and(|rank| ranks.insert(rank)))
    }
}

/// Returns the hang of a process that matters most: the longest that waits for the device, or else the longest.
fn worst_hang(process: &Process) -> Option<&Event> {
    let hangs = process.report.events.iter().filter(|event| event.is_endless());
    hangs.max_by_key(|hang| (waits_for_device(hang), hang.took))
}

/// Returns whether the call waits for all that runs on the device. A call that waits for work which the program named,
/// or for a thread that does so, does not count.
fn waits_for_device(hang: &Event) -> bool {
    rules::named(&hang.rule).is_some_and(causes::waits_for_device)
}

fn cannot_go_on(process: &Process) -> bool {
    worst_hang(process).is_some_and(waits_for_device)
}

impl<'a> fmt::Display for Together<'a> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stuck = || self.processes.iter().copied().filter(|process| cannot_go_on(process));
        let (count, are_ranks) = (self.processes.len(), self.are_ranks());
        let (the, together) = if are_ranks { ("the ", "") } else { ("", " if they work together") };
        let why = match stuck().count() {
            0 => format!("all that hang wait for kernels, which may wait for one another{together}"),
            stuck_ones => {
                let (its, it) = if stuck_ones == 1 { ("its", "it") } else { ("their", "them") };
                let others = if stuck_ones < count {
                    format!(", and {the}others may wait for {it}{together}")
                } else {
                    String::new()
                };
                format!("{} cannot go on before {its} device is idle{others}", names(stuck()))
            }
        };
        let hang = self.processes.iter().filter(|process| worst_hang(process).is_some()).count();
        let which = match count {
            1 => format!("in {}", words::processes(count)),
            _ if are_ranks => format!("across {}", words::processes(count)),
            _ if hang < count => format!("in {hang} of {}", words::processes(count)),
            _ => format!("in {} at the same time", words::processes(count)),
        };
        paragraph(f, &format!("HANG {which}: {why}."))?;
        for process in self.processes.iter().take(PROCESSES) {
            write_process(f, process)?;
        }
        if count > PROCESSES {
            writeln!(f, "  and {} more", count - PROCESSES)?;
        }
        let hang_of = |process: &'a Process| Some((process, worst_hang(process)?));
        let mut cures = Vec::new();
        for (process, hang) in stuck().filter_map(hang_of).take(PROCESSES) {
            for cure in hang::lines(process, hang, self.run).cures {
                if !cures.contains(&cure) {
                    cures.push(cure);
                }
            }
        }
        write!(f, "{}", Lines { cures, ..Lines::default() })
    }
}

fn write_process(f: &mut fmt::Formatter<'_>, process: &Process) -> fmt::Result {
    write!(f, "  {}: ", process.name)?;
    let Some(hang) = worst_hang(process) else {
        let last = process.report.activity.last().map_or(String::new(), |last| brief(&last.kernel));
        let place = place(&process.report.main_thread).map(|place| format!(", at {place}"));
        return writeln!(f, "in no call that hangs{}; launched `{last}` last", place.unwrap_or_default());
    };
    write!(f, "in `{}`", hang.call)?;
    if !hang.subject.is_nothing() {
        write!(f, " for `{}`", subject(hang))?;
    }
    write!(f, " for {}", Time(hang.took))?;
    if hang.waits_for_resident() {
        write!(f, ", while `{}` runs", brief(&hang.resident))?;
    }
    if !hang.caller.is_empty() {
        write!(f, ", by {}", caller(&hang.caller))?;
    }
    writeln!(f)
}

/// Returns the position of a thread from its innermost frame and the user's frame: `tp.py:25 rank_main, in store.wait`.
fn place(frames: &str) -> Option<String> {
    let mut lines = frames.lines();
    let (innermost, user) = (lines.next()?, lines.next()?);
    let short = |frame: &str| caller(frame.rsplit('/').next().unwrap_or_default());
    let called = if innermost == user { only_call(user) } else { Some(short(innermost)) };
    Some(format!("{}{}", short(user), called.map(|called| format!(", in {called}")).unwrap_or_default()))
}

/// Returns the function that the line of a frame calls, if the line calls only one and can be read.
fn only_call(frame: &str) -> Option<String> {
    const LARGEST: u64 = 4 << 20;
    let (path, line) = frame.rsplit_once(' ')?.0.rsplit_once(':')?;
    let (mut file, length) = open_plain(Path::new(path)).ok().filter(|(_, length)| *length <= LARGEST)?;
    let mut source = String::with_capacity(length as usize);
    file.read_to_string(&mut source).ok()?;
    let line = source.lines().nth(line.parse::<usize>().ok()?.checked_sub(1)?)?;
    let is_name = |character: char| character.is_alphanumeric() || matches!(character, '_' | '.');
    let called = line.match_indices('(').filter_map(|(at, _)| {
        let before = &line[..at];
        let name = &before[before.trim_end_matches(is_name).len()..];
        (!name.is_empty()).then_some(name)
    });
    let called: Vec<_> = called.collect();
    match called[..] {
        [name] => Some(name.to_owned()),
        _ => None,
    }
}

/// The key of a hang: the number and the start of its process, its thread, and when the hang began.
type Key = (u32, u64, u32, u64);

/// Record files being followed, including files not created yet.
#[derive(Default)]
pub(crate) struct Running {
    folders: Vec<PathBuf>,
    /// Which records are of the program that this command runs, on this machine and in no other container; `None` if
    /// other commands run the processes. The ranks of other commands are followed, too, because they can keep the
    /// program waiting.
    own: Option<Own>,
    run: HowRun,
    followed: HashMap<PathBuf, Followed>,
    /// Records that are not followed, because their processes have ended: before the first look, or later if the
    /// program of this command started them.
    ended: HashSet<PathBuf>,
    /// The records of ended processes without findings, the oldest first. `None` if all records are needed.
    temporary: Option<VecDeque<PathBuf>>,
    /// How many of these were removed.
    removed: usize,
    /// How long each hang had taken at the last look. A killed process's hang stops growing, so it is not reported again.
    took: HashMap<Key, u64>,
    said: HashSet<Key>,
    /// Whether the folders were searched for records before.
    has_looked: bool,
    have_ended: bool,
}

/// A record that is followed.
struct Followed {
    tail: Tail,
    /// Whether the file existed at the first look. The process of such a file counts only once it is seen to run.
    was_there: bool,
    /// The list of mapped files (`/proc/PID/maps`) of the process that has mapped the record, if the process had to be
    /// found.
    process: Option<PathBuf>,
    is_gone: bool,
    /// Whether the process had ended at the last look.
    has_ended: bool,
    /// Whether the record had findings then, or may lack some.
    has_findings: bool,
}

impl Followed {
    fn new(tail: Tail, was_there: bool, process: Option<PathBuf>) -> Self {
        Followed { tail, was_there, process, is_gone: false, has_ended: false, has_findings: false }
    }

    /// Reads the record as it is now, if its process counts.
    fn look(&mut self) -> Option<Report> {
        let mut report = self.tail.look().ok()??;
        if self.was_there && !self.tail.has_run() {
            return None;
        }
        // A killed process does not record that it ends, and a stopped process does not report that it runs.
        report.ended |= self.tail.is_quiet() && !self.is_in_memory();
        self.has_ended = report.ended;
        self.has_findings =
            report.events.iter().any(is_finding) || report.dropped_findings > 0 || report.lacks_thread;
        Some(report)
    }

    /// Returns whether a process of this machine and user has mapped the record.
    fn is_in_memory(&mut self) -> bool {
        let Some(record) = self.tail.inode().filter(|_| !self.is_gone) else { return false };
        if !self.process.as_deref().is_some_and(|maps| is_mapped(maps, record)) {
            let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
            let mut maps = processes.map(|process| process.path().join("maps"));
            self.process = maps.find(|maps| is_mapped(maps, record));
        }
        self.is_gone = self.process.is_none();
        !self.is_gone
    }
}

/// Returns whether a file with this inode is in a list of mapped files.
fn is_mapped(maps: &Path, inode: u64) -> bool {
    let maps = fs::read_to_string(maps).unwrap_or_default();
    let inode = inode.to_string();
    maps.lines().any(|line| line.contains(".rec") && line.split_whitespace().nth(4) == Some(&inode))
}

impl Running {
    /// Follows the processes of a program that this command runs.
    pub(crate) fn follow_program(records: PathBuf, own: Own, run: HowRun, are_kept: bool) -> Self {
        let temporary = (!are_kept).then(VecDeque::new);
        Running { folders: vec![records], own: Some(own), run, temporary, ..Running::default() }
    }

    /// Returns a sentence on the records that were removed, if any.
    pub(crate) fn removed(&self) -> Option<String> {
        let Running { removed, .. } = self;
        (*removed > 0).then(|| {
            format!("the records of {removed} processes without findings were removed, because others ended later: `--records FOLDER` keeps all")
        })
    }

    /// Follows processes that other commands run.
    pub(crate) fn follow_others(folders: Vec<PathBuf>, run: HowRun) -> Self {
        Running { folders, run, ..Running::default() }
    }

    /// Returns the number of processes that had ended before the first look.
    pub(crate) fn ended_before(&self) -> usize {
        self.ended.len()
    }

    /// Finds new records, and follows them.
    fn follow(&mut self) {
        for path in self.folders.iter().flat_map(|folder| record_files(folder)) {
            let is_known = self.followed.contains_key(&path) || self.ended.contains(&path);
            if is_known || self.own.as_ref().is_some_and(|own| !own.is_new(&path)) {
                continue;
            }
            let Ok(mut tail) = Tail::open(&path) else { continue };
            let was_there = self.own.is_none() && !self.has_looked;
            if was_there && matches!(tail.look(), Ok(Some(report)) if report.ended) {
                self.ended.insert(path);
            } else {
                self.followed.insert(path, Followed::new(tail, was_there, None));
            }
        }
        self.has_looked = true;
    }

    /// Stops following own records of processes that have ended, and makes them small: a server may start new workers
    /// all the time.
    fn leave_ended(&mut self) {
        let Some(own) = &self.own else { return };
        self.followed.retain(|path, followed| {
            let stays = !own.has(path) || !followed.has_ended || followed.is_in_memory();
            if !stays {
                // Where the file system has no holes, the record stays large.
                let _ = followed.tail.inode().map(|inode| trim(path, inode));
                self.ended.insert(path.clone());
                let temporary = self.temporary.iter_mut().filter(|_| !followed.has_findings);
                temporary.for_each(|ended| ended.push_back(path.clone()));
            }
            stays
        });
        let Some(temporary) = &mut self.temporary else { return };
        while temporary.len() > MOST_ENDED
            && let Some(oldest) = temporary.pop_front()
        {
            self.removed += usize::from(fs::remove_file(&oldest).is_ok());
            // A later process can have the same number.
            self.ended.remove(&oldest);
        }
    }

    /// Reads the records. Returns a text on the hangs if some were not reported before.
    pub(crate) fn look(&mut self) -> Option<String> {
        self.follow();
        self.leave_ended();
        let mut processes = with_names(self.followed.values_mut().filter_map(Followed::look).collect());
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
        // A killed process could not record that it ends.
        let is_there = |number: u32| Path::new("/proc").join(number.to_string()).exists();
        processes.retain(|Process { report, .. }| {
            self.own.is_none() || !report.events.is_empty() || is_there(report.process)
        });
        if hangs.is_subset(&self.said) {
            return None;
        }
        let together = Together::find(&processes, &self.run, usize::from(self.own.is_some()))?.to_string();
        self.said.extend(hangs);
        Some(together)
    }

    /// Returns the number of hangs, once all processes have ended.
    pub(crate) fn hangs_at_end(&self) -> Option<usize> {
        self.have_ended.then_some(self.took.len())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::record::Kind;

    fn hanging(process: u32, rank: Option<u32>, rule: &rules::Rule) -> Report {
        let mut hang = Event::default();
        (hang.kind, hang.took, hang.rule) = (Kind::Hang, 5_000_000_000, rule.name.into());
        let mut report = Report::default();
        (report.process, report.rank, report.events) = (process, rank, vec![hang]);
        report
    }

    fn said_of(reports: Vec<Report>, least: usize) -> String {
        let (processes, run) = (with_names(reports), HowRun::default());
        let text = Together::find(&processes, &run, least).map(|together| together.to_string());
        text.unwrap_or_default()
            .lines()
            .take_while(|line| !line.starts_with(' '))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Two programs that one command runs can have nothing to do with each other.
    #[test]
    fn only_ranks_are_said_to_hang_together() {
        let (load, waits) = (&rules::LOAD, &rules::SYNCHRONIZE);
        let both = |ranks: [Option<u32>; 2], rules: [&rules::Rule; 2]| {
            said_of(vec![hanging(7, ranks[0], rules[0]), hanging(8, ranks[1], rules[1])], 1)
        };
        assert_eq!(
            both([Some(0), Some(1)], [waits, load]),
            "HANG across 2 processes: rank 1 cannot go on before its device is idle, and the others may wait for it."
        );
        assert_eq!(
            both([None, None], [load, load]),
            "HANG in 2 processes at the same time: process 7, process 8 cannot go on before their device is idle."
        );
        // One of two programs was started by a launcher, or both are rank 0 of different jobs.
        for ranks in [[Some(0), None], [Some(0), Some(0)]] {
            let said = both(ranks, [load, waits]);
            assert!(said.starts_with("HANG in 2 processes at the same time: rank 0"), "{said}");
            assert!(said.ends_with("and others may wait for it if they work together."), "{said}");
        }
        assert!(
            both([None, None], [waits, waits])
                .ends_with("which may wait for one another if they work together.")
        );
        let mut launches = Report::default();
        (launches.process, launches.activity) = (9, vec![Default::default()]);
        let said = said_of(vec![hanging(7, None, load), launches], 1);
        assert!(said.starts_with("HANG in 1 of 2 processes: process 7 cannot go on"), "{said}");
        let said = said_of(vec![hanging(7, Some(0), load)], 0);
        assert_eq!(said, "HANG in 1 process: rank 0 cannot go on before its device is idle.");
    }

    #[test]
    fn a_thread_is_at_the_users_line_and_in_what_it_calls() {
        let folder = std::env::temp_dir().join(format!("kernel-registry-place-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("tp.py");
        fs::write(&path, "store.wait(['x'])\nx = y\ncheck(store.wait(b))\nprint('a (b)')\n").unwrap();
        let at = |line: u32| {
            let frame = format!("{}:{line} rank_main\n", path.display());
            place(&frame.repeat(2)).unwrap()
        };
        assert_eq!(at(1), "tp.py:1 rank_main, in store.wait");
        assert_eq!([at(2), at(3), at(5)], [2, 3, 5].map(|line| format!("tp.py:{line} rank_main")));
        assert_eq!(at(4), "tp.py:4 rank_main, in print");
        fs::remove_dir_all(&folder).unwrap();
        let frames = "/lib/store.py:7 Store.wait\n/gone/tp.py:1 rank_main\n";
        assert_eq!(place(frames).unwrap(), "tp.py:1 rank_main, in store.py:7 Store.wait");
        assert_eq!((place(""), place("/gone/tp.py:1 f\n")), (None, None));
    }

    #[test]
    fn a_record_is_found_in_the_memory_of_its_process() {
        let path = std::env::temp_dir().join(format!("kernel-registry-{}.rec", std::process::id()));
        fs::write(&path, "x").unwrap();
        let file = File::open(&path).unwrap();
        let inode = file.metadata().unwrap().ino();
        let followed = |process| {
            let tail = Tail::open(&path).unwrap();
            Followed::new(tail, false, process).is_in_memory()
        };
        assert!(!followed(None), "{inode}");
        // SAFETY: nothing writes to the file.
        let _mapped = unsafe { memmap2::Mmap::map(&file) }.unwrap();
        assert!(followed(None), "{inode}");
        assert!(followed(Some("/proc/self/maps".into())) && followed(Some("/proc/none/maps".into())));
        fs::remove_file(&path).unwrap();
    }
}
