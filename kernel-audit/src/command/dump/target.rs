//! Finds the process to look at, and refuses those that can't be joined before a debugger tries.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::rights::{Owner, Rights};
use crate::command::failure::Failure;
use crate::command::process;
use crate::command::report::words::caller;
use crate::record::{Kind, Report};

/// How a user gets the right to debug a process.
pub(super) const MAY_DEBUG: &str = "run this as root, and in a container with `--cap-add SYS_PTRACE`";

/// The most characters of a command line that are shown.
const LONGEST: usize = 160;

/// A process that has loaded the driver.
pub(super) struct Target {
    pub(super) number: u32,
    /// The command line, shortened.
    pub(super) command: String,
    pub(super) owner: Owner,
    pub(super) is_python: bool,
    /// The variable `TMPDIR` of the process. cuda-gdb has to use the same one.
    pub(super) temporary: Option<OsString>,
    /// What the audit knows of the process, if it's behind one.
    pub(super) record: Option<Report>,
}

impl Target {
    /// Finds a process by its number.
    pub(super) fn find(number: u32) -> Result<Self, Failure> {
        let refused = |why: String| Failure::NotJoined { process: number, why };
        let folder = folder(number);
        // A process can have any bytes as its name.
        let status =
            fs::read(folder.join("status")).map_err(|_| refused("there is no such process".to_owned()))?;
        let status = String::from_utf8_lossy(&status);
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim()
        };
        let thread_of = field("Tgid").parse::<u32>().unwrap_or(number);
        if thread_of != number {
            return Err(refused(format!("it is a thread of process {thread_of}")));
        }
        match field("State").chars().next() {
            Some('Z' | 'X') => return Err(refused("it has ended".to_owned())),
            Some('T') => return Err(refused(format!("it is stopped: `kill -CONT {number}` lets it go on"))),
            _ => {}
        }
        if let tracer @ 1.. = field("TracerPid").parse::<u32>().unwrap_or(0) {
            return Err(refused(format!("process {tracer} debugs it already")));
        }
        let maps = fs::read(folder.join("maps")).map_err(|error| {
            refused(match error.kind() {
                ErrorKind::PermissionDenied => format!("you may not look into it: {MAY_DEBUG}"),
                _ => error.to_string(),
            })
        })?;
        let maps = String::from_utf8_lossy(&maps);
        let is_driver =
            |line: &str| line.rsplit('/').next().is_some_and(|file| file.starts_with("libcuda.so"));
        let is_interpreter = |line: &str| {
            let file = line.rsplit('/').next().unwrap_or_default();
            file.starts_with("python") || file.starts_with("libpython")
        };
        if !maps.lines().any(is_driver) {
            return Err(refused(
                "it has not loaded the driver (`libcuda.so.1`): perhaps a child of it uses CUDA".to_owned(),
            ));
        }
        let command = fs::read(folder.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
        let command = command.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
        let variables = fs::read(folder.join("environ")).unwrap_or_default();
        let temporary = variables.split(|byte| *byte == 0).find_map(|its| its.strip_prefix(b"TMPDIR="));
        let temporary = temporary.map(|value| OsStr::from_bytes(value).to_owned());
        // Real, effective, saved, and the one for files.
        let id = |name| field(name).split_whitespace().nth(3)?.parse().ok();
        let (Some(user), Some(group)) = (id("Uid"), id("Gid")) else {
            return Err(refused("it has no user".to_owned()));
        };
        let (command, record) =
            (command.take(LONGEST).collect(), record(&folder, Owner { user, group }, &maps));
        let owner = Owner { user, group };
        Ok(Target { number, command, owner, is_python: maps.lines().any(is_interpreter), temporary, record })
    }

    /// Returns the folder of the process in `/proc`.
    pub(super) fn folder(&self) -> PathBuf {
        folder(self.number)
    }

    /// Returns the folder for temporary files, as the process sees it.
    pub(super) fn temporary_folder(&self) -> PathBuf {
        let its = self.temporary.as_ref().map(PathBuf::from).filter(|its| its.is_absolute());
        its.unwrap_or_else(|| PathBuf::from("/tmp"))
    }

    /// Returns who loaded a kernel, if the audit saw that.
    pub(super) fn loaded_by(&self, symbol: &str) -> Option<String> {
        let events = self.record.iter().flat_map(|record| record.events.iter().chain(&record.preloaded));
        let loads = events.filter(|event| event.kind == Kind::Load && !event.caller.is_empty());
        let mut its = loads.filter(|load| load.subject.kernel().is_some_and(|its| **its == *symbol));
        let first = its.next()?;
        // Kernels of several modules can have one name, as those of `torch.compile` do.
        its.all(|load| load.caller == first.caller).then(|| caller(&first.caller))
    }
}

fn folder(number: u32) -> PathBuf {
    Path::new("/proc").join(number.to_string())
}

/// Reads the audit's record of a process, which has mapped it. In a container the path is that of its own root.
fn record(folder: &Path, owner: Owner, maps: &str) -> Option<Report> {
    let _rights = Rights::assume(owner);
    let files = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let mut records = files.filter(|file| file.ends_with(".rec"));
    records.find_map(|file| process::read_one(&folder.join("root").join(file.trim_start_matches('/'))))
}
