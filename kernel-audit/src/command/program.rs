//! Runs any program with a library in front of the driver, and reports on the program.
//!
//! A stub library without code has the driver's name. By the stub, the loader finds functions first in the hooks, and
//! then in the driver. Each process writes a record. `prepare` makes what the program needs, `supervise` runs it, and
//! `conclude` reports.

mod conclude;
mod front;
mod hangs;
mod messages;
mod prepare;
mod python;
mod signals;
mod supervise;
mod usage;

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use kernel_registry_command::terminal;

use super::cli::Run;
use super::failure::Failure;
use crate::variables;

/// Runs a program. `words` follow the file of this program on the command line.
pub(crate) fn run(options: &Run, words: &str) -> Result<(), Failure> {
    usage::check(options)?;
    options.reports.can_be_written()?;
    let Some((program, arguments)) = terminal::program(&options.command)? else { return Ok(()) };
    if env::var_os(variables::DRIVER).is_some() {
        return Err(Failure::AuditedAlready);
    }
    if let Some(file) = &options.ready_file {
        remove_mark(file)?;
    }
    let mut prepared = prepare::prepare(options, words, program, arguments)?;
    let ended = supervise::supervise(&mut prepared)?;
    conclude::conclude(options, prepared, ended)
}

/// Removes the file that says that the program is ready, if an earlier run has left it. Only an empty file is such a
/// mark; any other file is an error.
fn remove_mark(file: &Path) -> Result<(), Failure> {
    match fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(its) if its.is_file() && its.len() == 0 => {
            fs::remove_file(file).map_err(Failure::not_written(file))
        }
        _ => Err(Failure::NoMark { path: file.to_owned() }),
    }
}
