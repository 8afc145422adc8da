//! Says what a GPU does now: which kernels run, and where in their code the threads are. The least harmful source is used:
//! cuda-gdb joins a process and leaves it running, while a core dump that the driver writes ends it.

mod debugger;
mod json;
mod look;
mod target;
mod words;

use std::env;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use kernel_registry_command::{Failure as Shared, terminal};
use kernel_registry_image::dump as core;

use super::cli;
use super::failure::Failure;
use look::Look;
use target::Target;

/// Prints what the GPUs of a process do, or what a core dump has.
pub(crate) fn dump(options: &cli::Dump) -> Result<(), Failure> {
    let look = match (&options.core, options.process) {
        (Some(path), _) => Look { process: None, gpus: read(path)? },
        (None, number) => join(number.unwrap_or(0))?,
    };
    let text = if options.json { json::text(&look) } else { look.to_string() };
    Ok(terminal::print(|out| write!(out, "{text}"))?)
}

/// Joins a process by cuda-gdb.
fn join(number: u32) -> Result<Look, Failure> {
    let process = Target::find(number)?;
    let folder = tempfile::tempdir().map_err(Failure::not_written(&env::temp_dir()))?;
    let gpus = parse(&debugger::core_of(&process, folder.path())?, folder.path())?;
    Ok(Look { process: Some(process), gpus })
}

fn read(path: &Path) -> Result<core::Dump, Failure> {
    // A dump with the memory of a GPU can have a hundred gigabytes, and another file need not have an end.
    const LARGEST: u64 = 4 << 30;
    let in_words = Shared::of_io(path);
    let (mut bytes, mut file) = (vec![0; 64], File::open(path).map_err(in_words)?);
    let head = file.read(&mut bytes).map_err(in_words)?;
    bytes.truncate(head);
    if core::is_dump(&bytes) {
        file.take(LARGEST).read_to_end(&mut bytes).map_err(in_words)?;
    }
    parse(&bytes, path)
}

fn parse(bytes: &[u8], path: &Path) -> Result<core::Dump, Failure> {
    core::read(bytes).map_err(|source| Failure::NoDump { path: path.to_owned(), source })
}
