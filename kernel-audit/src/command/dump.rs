//! Says what a GPU does now: which kernels run, and where in their code the threads are. The least harmful source is used:
//! cuda-gdb joins a process and leaves it running, while a core dump that the driver writes ends it.

mod debugger;
mod folder;
mod host;
mod json;
mod look;
mod programs;
mod rights;
mod stacks;
mod target;
mod words;

use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;

use kernel_registry_command::{Failure as Shared, terminal};
use kernel_registry_image::dump as core;

use super::cli;
use super::failure::Failure;
use crate::record::Report;
use debugger::Joined;
use folder::{ENOUGH, Folder};
use look::Look;
use target::Target;

/// Prints what the GPUs of a process do, or what a core dump has.
pub(crate) fn dump(options: &cli::Dump) -> Result<(), Failure> {
    let look = match (&options.core, options.process) {
        (Some(path), _) => {
            // A dump with the memory of a GPU can have a hundred gigabytes.
            const LARGEST: u64 = 4 << 30;
            let bytes = File::open(path).and_then(|file| read(file, LARGEST)).map_err(Shared::of_io(path))?;
            Look { process: None, gpus: parse(&bytes, path)?, threads: Vec::new(), lacks_python: None }
        }
        (None, number) => {
            programs::end_in_order();
            if io::stderr().is_terminal() {
                terminal::say(
                    "cuda-gdb joins the process, which takes a second, or ten if it has loaded PyTorch",
                );
            }
            let look = Target::find(number.unwrap_or(0)).and_then(join)?;
            programs::end_at_once()?;
            look
        }
    };
    let text = if options.json { json::text(&look) } else { look.to_string() };
    Ok(terminal::print(|out| write!(out, "{text}"))?)
}

/// Returns what the GPUs of an audited process do, if cuda-gdb and the process are found. The process is halted for a second, or for ten if it
/// has loaded PyTorch.
pub(crate) fn before_end(report: &Report) -> Option<Result<impl Display, Failure>> {
    debugger::find()?;
    let process = Target::find(report.process).ok()?;
    // A PID of another namespace can be someone else's process here.
    let is_its = |record: &Report| (record.process, record.started) == (report.process, report.started);
    process.record.as_ref().is_some_and(is_its).then(|| join(process))
}

/// Says that the process which is looked at has ended, so that a program which looks at it has to end soon.
pub(crate) fn process_has_ended() {
    programs::finish();
}

/// Joins a process by cuda-gdb.
fn join(process: Target) -> Result<Look, Failure> {
    let number = process.number;
    let folder = Folder::create_for(&process).map_err(|error| {
        let why = format!("there is no folder to which it can write a core dump: {error}");
        Failure::NotJoined { process: number, why }
    })?;
    // One program at a time can join a process.
    let python = if process.is_python { host::python(number) } else { Ok(HashMap::new()) };
    let Joined { threads, why_not } = debugger::join(&process, &folder.file())?;
    match folder.open().and_then(|file| read(file, ENOUGH)) {
        Ok(bytes) if core::is_dump(&bytes) => {
            let gpus = parse(&bytes, &folder.file())?;
            let (python, lacks_python) = match python {
                Ok(python) => (python, None),
                Err(why) => (HashMap::new(), Some(why)),
            };
            let threads = host::merged(threads, python);
            Ok(Look { process: Some(process), gpus, threads, lacks_python })
        }
        // The process may have ended, or another debugger may have been faster.
        _ => Err(Target::find(number).err().unwrap_or(Failure::NotJoined { process: number, why: why_not })),
    }
}

/// Reads a core dump, or only the start of another file, which need not have an end.
fn read(mut file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 64];
    let head = file.read(&mut bytes)?;
    bytes.truncate(head);
    if core::is_dump(&bytes) {
        file.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn parse(bytes: &[u8], path: &Path) -> Result<core::Dump, Failure> {
    core::read(bytes).map_err(|source| Failure::NoDump { path: path.to_owned(), source })
}
