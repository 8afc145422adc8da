//! Finds the process to look at, and refuses those that can't be joined before a debugger tries.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::command::failure::Failure;
use crate::command::process;
use crate::command::report::words::caller;
use crate::record::{Kind, Report};

/// The most characters of a command line that are shown.
const LONGEST: usize = 160;

/// A process that has loaded the driver.
pub(super) struct Target {
    pub(super) number: u32,
    /// The command line, shortened.
    pub(super) command: String,
    /// What the audit knows of the process, if it's behind one.
    pub(super) record: Option<Report>,
}

impl Target {
    /// Finds a process by its number.
    pub(super) fn find(number: u32) -> Result<Self, Failure> {
        let refused = |why: String| Failure::NotJoined { process: number, why };
        let folder = Path::new("/proc").join(number.to_string());
        let status = fs::read_to_string(folder.join("status"))
            .map_err(|_| refused("there is no such process".to_owned()))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().trim()
        };
        match field("State").chars().next() {
            Some('Z' | 'X') => return Err(refused("it has ended".to_owned())),
            Some('T') => return Err(refused(format!("it is stopped: `kill -CONT {number}` lets it go on"))),
            _ => {}
        }
        if let tracer @ 1.. = field("TracerPid").parse::<u32>().unwrap_or(0) {
            return Err(refused(format!("process {tracer} debugs it already")));
        }
        let maps = fs::read_to_string(folder.join("maps")).map_err(|error| {
            refused(match error.kind() {
                ErrorKind::PermissionDenied => {
                    "it belongs to another user, or this one may not debug it: run this as root, and in a \
                     container with `--cap-add SYS_PTRACE`"
                        .to_owned()
                }
                _ => error.to_string(),
            })
        })?;
        let is_driver =
            |line: &str| line.rsplit('/').next().is_some_and(|file| file.starts_with("libcuda.so"));
        if !maps.lines().any(is_driver) {
            return Err(refused(
                "it has not loaded the driver (`libcuda.so.1`): perhaps a child of it uses CUDA".to_owned(),
            ));
        }
        let command = fs::read(folder.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
        let command = command.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
        Ok(Target { number, command: command.take(LONGEST).collect(), record: record(&folder, &maps) })
    }

    /// Returns who loaded a kernel, if the audit saw that.
    pub(super) fn loaded_by(&self, symbol: &str) -> Option<String> {
        let events = self.record.iter().flat_map(|record| record.events.iter().chain(&record.preloaded));
        let mut loads = events.filter(|event| event.kind == Kind::Load && !event.caller.is_empty());
        loads
            .find(|load| load.subject.kernel().is_some_and(|its| **its == *symbol))
            .map(|load| caller(&load.caller))
    }
}

/// Reads the audit's record of a process, which has mapped it. In a container the path is that of its own root.
fn record(folder: &Path, maps: &str) -> Option<Report> {
    let mut files = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let file = files.find(|file| file.ends_with(".rec"))?;
    process::read_one(&folder.join("root").join(file.trim_start_matches('/')))
}
