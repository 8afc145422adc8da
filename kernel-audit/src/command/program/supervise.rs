//! Runs the program, and says what hangs while it runs.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use kernel_registry_command::{Failure as Shared, terminal};

use super::hangs::Hangs;
use super::prepare::Prepared;
use super::signals;
use crate::command::dump;
use crate::command::failure::Failure;
use crate::command::process::HangKey;
use crate::command::together::{self, Running};

/// A program that has ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// The hangs that were said.
    pub(super) said: HashSet<HangKey>,
    /// Whether several processes hung together.
    pub(super) was_together: bool,
    /// Whether Ctrl-C ended the program.
    pub(super) was_interrupted: bool,
    /// A sentence for each process without a record.
    pub(super) without_record: Vec<String>,
}

/// Replaces this process by the program, without an audit. Returns only if that fails.
pub(super) fn replace_with(program: &OsStr, arguments: &[OsString]) -> Failure {
    let mut command = Command::new(program);
    command.args(arguments);
    signals::inherit(&mut command);
    Shared::NotRun { program: program.to_owned(), source: command.exec() }.into()
}

/// Runs the program to its end.
pub(super) fn supervise(prepared: &mut Prepared) -> Result<Ended, Failure> {
    let are_kept = prepared.needs_all_records();
    let Prepared { command, records, own, run, .. } = prepared;
    let blocked = signals::outlive(command);
    let program = command.get_program().to_owned();
    let mut running = command.spawn().map_err(|source| Shared::NotRun { program, source })?;
    signals::program_runs(running.id(), blocked);
    let mut processes = Running::follow_program(records.clone(), own.clone(), run.clone(), are_kept);
    let mut hangs = Hangs {
        records: records.clone(),
        own: own.clone(),
        run: run.clone(),
        said: HashSet::new(),
        look_at: None,
        has_looked: false,
    };
    let mut messages = prepared.messages.take();
    let mut was_together = false;
    let status = thread::scope(|scope| {
        let (running_still, has_ended) = mpsc::channel::<()>();
        let (messages, hangs, was_together) = (&mut messages, &mut hangs, &mut was_together);
        let processes = &mut processes;
        let looks = scope.spawn(move || {
            while has_ended.recv_timeout(together::STEP) == Err(RecvTimeoutError::Timeout) {
                messages.iter_mut().for_each(|messages| hangs.say(messages.say(), true));
                hangs.look();
                if let Some(hangs) = processes.look() {
                    *was_together = true;
                    terminal::say(hangs);
                    signals::program_hangs();
                }
            }
        });
        let status = signals::wait(&mut running);
        dump::process_has_ended();
        drop(running_still);
        // The report comes also if that thread failed.
        let _ = looks.join();
        status
    });
    let was_interrupted = signals::program_has_ended();
    let status = status.map_err(|error| Shared::Output { source: error })?;

    // From here on processes that live on say themselves what hangs.
    let without_record = messages.map(|mut messages| {
        hangs.say(messages.say(), false);
        messages.without_record()
    });
    let without_record = without_record.unwrap_or_default();
    processes.removed().iter().for_each(terminal::say);
    Ok(Ended { status, said: hangs.said, was_together, was_interrupted, without_record })
}
