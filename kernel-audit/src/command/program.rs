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
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use kernel_registry_command::{terminal, with_causes};

use super::cli::Run;
use super::failure::Failure;
use crate::variables;

/// Runs a program. `words` follow the file of this program on the command line.
pub(crate) fn run(options: &Run, words: &str) -> Result<(), Failure> {
    let Some((program, arguments)) = terminal::program(&options.command)? else { return Ok(()) };
    let checked = check(options).and_then(|()| prepare::prepare(options, words, program, arguments));
    let mut prepared = match checked {
        Ok(prepared) => prepared,
        Err(why) if usage::fails_open(options) => {
            let why = with_causes(&why);
            terminal::say(format_args!(
                "warning: the program runs unwatched, and nothing is preloaded: {why}"
            ));
            return Err(supervise::replace_with(program, arguments));
        }
        Err(why) => return Err(why),
    };
    let ended = supervise::supervise(&mut prepared)?;
    let status = ended.status;
    conclude::conclude(options, prepared, ended)?;
    match status.signal() {
        Some(signal) => Err(signals::end_by(signal)),
        None => match status.code().map(u8::try_from) {
            Some(Ok(0)) => Ok(()),
            Some(Ok(code)) => Err(Failure::Failed { code }),
            _ => Err(Failure::Failed { code: 1 }),
        },
    }
}

/// Fails if the program can't be watched as the options say.
fn check(options: &Run) -> Result<(), Failure> {
    usage::check(options)?;
    options.reports.can_be_written()?;
    if env::var_os(variables::DRIVER).is_some() {
        return Err(Failure::AuditedAlready);
    }
    options.ready_file.as_deref().map_or(Ok(()), remove_mark)
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
