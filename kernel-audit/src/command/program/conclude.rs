//! Reports on a program that has ended.

use std::os::unix::process::ExitStatusExt;

use kernel_registry_command::{terminal, with_causes};

use super::prepare::Prepared;
use super::supervise::Ended;
use super::{front, usage};
use crate::command::bake;
use crate::command::cli::Run;
use crate::command::failure::Failure;
use crate::command::preload::{Earlier, Turn};
use crate::command::process::{self, Audit, record_files};

/// Reads the records of the program, and writes the reports.
///
/// # Errors
///
/// A report can't be written, or there are findings and the options say that the command fails then. If the program itself
/// failed, or has to run whatever happens, all this is a warning.
pub(super) fn conclude(options: &Run, prepared: Prepared, ended: Ended) -> Result<(), Failure> {
    let status = ended.status;
    let concluded = report(options, prepared, ended).and_then(|audit| verdict(options, &audit));
    match concluded {
        Err(why) if usage::fails_open(options) || !status.success() => {
            terminal::say(format_args!("warning: {}", with_causes(&why)));
            Ok(())
        }
        concluded => concluded,
    }
}

/// Reads the records and writes the reports. Returns the contents of the records.
fn report(options: &Run, prepared: Prepared, ended: Ended) -> Result<Audit, Failure> {
    let Prepared { driver, records, own, given, run, .. } = prepared;
    let mut audit = Audit::read(record_files(&records).into_iter().filter(|path| own.has(path)))?;
    (audit.said, audit.was_interrupted) = (ended.said, ended.was_interrupted);
    audit.set_run(run);
    audit.was_together = ended.was_together;
    audit.left_out.extend(ended.without_record);
    audit.has_ready_file = options.ready_file.is_some();
    audit.ended = Some(process::Outcome {
        exit_code: ended.status.code(),
        signal: ended.status.signal(),
        host: front::host(),
        driver: driver.clone(),
    });
    if !options.quiet {
        terminal::say(&audit);
    }
    let _turn = options.reports.record.as_deref().map(Turn::take);
    let files = options.preload.iter().cloned().collect();
    options.reports.write(&audit, Earlier { files, preload: given.unwrap_or_default() }, false)?;
    if let Some(file) = options.reports.record.as_ref().filter(|file| file.exists()) {
        bake::bake_with_driver(file, &driver);
    }
    Ok(audit)
}

/// Fails if the options say so, and there are findings or findings may be missing. Warns if the program made no call, and the
/// options ask about calls.
fn verdict(options: &Run, audit: &Audit) -> Result<(), Failure> {
    let nothing = usage::asks(options).filter(|_| audit.processes.is_empty());
    let nothing = nothing.map(|option| Failure::NothingAudited { option });
    if !options.reports.fail_on_findings {
        nothing.iter().for_each(|why| terminal::say(format_args!("warning: {why}")));
        return Ok(());
    }
    audit.verdict()?;
    nothing.map_or(Ok(()), Err)
}
