//! Says what a GPU does now: which kernels run, and where in their code the threads are. The least harmful source is used:
//! cuda-gdb joins a process and leaves it running, while a core dump that the driver writes ends it.

mod debugger;
mod folder;
mod host;
mod json;
mod look;
mod programs;
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
use debugger::Joined;
use folder::Folder;
use look::Look;
use target::Target;

/// Prints what the GPUs of a process do, or what a core dump has.
pub(crate) fn dump(options: &cli::Dump) -> Result<(), Failure> {
    let look = match (&options.core, options.process) {
        (Some(path), _) => {
            let bytes = File::open(path).and_then(read).map_err(Shared::of_io(path))?;
            Look { process: None, gpus: parse(&bytes, path)?, threads: Vec::new(), lacks_python: false }
        }
        (None, number) => {
            programs::end_in_order();
            if io::stderr().is_terminal() {
                terminal::say(
                    "cuda-gdb joins the process, which takes a second, or ten if it has loaded PyTorch",
                );
            }
            join(number.unwrap_or(0))?
        }
    };
    let text = if options.json { json::text(&look) } else { look.to_string() };
    Ok(terminal::print(|out| write!(out, "{text}"))?)
}

/// Returns what the GPUs of a process do, unless there's no cuda-gdb. It must be a process whose end is near anyway: it's halted meanwhile,
/// for ten seconds if it has loaded PyTorch.
pub(crate) fn before_end(number: u32) -> Option<Result<impl Display, Failure>> {
    debugger::find().is_some().then(|| join(number))
}

/// Joins a process by cuda-gdb.
fn join(number: u32) -> Result<Look, Failure> {
    let process = Target::find(number)?;
    let folder = Folder::of(&process).map_err(|error| {
        let why = format!("there is no folder to which it can write a core dump: {error}");
        Failure::NotJoined { process: number, why }
    })?;
    // One program at a time can join a process.
    let python = if process.is_python { host::python(number) } else { Some(HashMap::new()) };
    let Joined { threads, why_not } = debugger::join(&process, &folder.file())?;
    match folder.open().and_then(read) {
        Ok(bytes) if core::is_dump(&bytes) => {
            let gpus = parse(&bytes, &folder.file())?;
            let lacks_python = python.is_none();
            let threads = host::merged(threads, python.unwrap_or_default());
            Ok(Look { process: Some(process), gpus, threads, lacks_python })
        }
        _ => Err(Failure::NotJoined { process: number, why: why_not }),
    }
}

/// Reads a core dump, or only the start of another file, which need not have an end.
fn read(mut file: File) -> io::Result<Vec<u8>> {
    // A dump with the memory of a GPU can have a hundred gigabytes.
    const LARGEST: u64 = 4 << 30;
    let mut bytes = vec![0; 64];
    let head = file.read(&mut bytes)?;
    bytes.truncate(head);
    if core::is_dump(&bytes) {
        file.take(LARGEST).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn parse(bytes: &[u8], path: &Path) -> Result<core::Dump, Failure> {
    core::read(bytes).map_err(|source| Failure::NoDump { path: path.to_owned(), source })
}
