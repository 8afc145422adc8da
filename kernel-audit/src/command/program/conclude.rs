//! Reports on a program that has ended, and finds the exit code of the command.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use kernel_registry_command::terminal;

use super::prepare::Prepared;
use super::supervise::Ended;
use super::usage;
use crate::command::bake;
use crate::command::cli::Run;
use crate::command::failure::Failure;
use crate::command::process::{Audit, record_files};

/// Reads the records of the program, and writes the reports.
///
/// # Errors
///
/// The program has failed, there are findings, or a report can't be written.
pub(super) fn conclude(options: &Run, prepared: Prepared, ended: Ended) -> Result<(), Failure> {
    let Prepared { driver, records, own, given, run, .. } = prepared;
    let mut audit = Audit::read(record_files(&records).into_iter().filter(|path| own.has(path)))?;
    (audit.said, audit.was_interrupted) = (ended.said, ended.was_interrupted);
    audit.set_run(run);
    audit.was_together = ended.was_together;
    audit.left_out.extend(ended.without_record);
    audit.has_ready_file = options.ready_file.is_some();
    terminal::say(&audit);
    options.reports.write(&audit, given.unwrap_or_default(), false)?;
    if let Some(file) = options.reports.record.as_ref().filter(|file| file.exists()) {
        bake::bake_with_driver(file, &driver);
    }
    match code(ended.status) {
        0 => audit.verdict()?,
        code => return Err(Failure::Failed { code }),
    }
    match usage::asks(options).filter(|_| audit.processes.is_empty()) {
        Some(option) => Err(Failure::NothingAudited { option }),
        None => Ok(()),
    }
}

/// Returns the exit code of a program as shells do: 128 and the signal's number, if a signal ended it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
