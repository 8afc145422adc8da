//! Runs any program with a library in front of the driver, and reports on the program.
//!
//! A stub library without code has the driver's name. By the stub, the loader finds functions first in the hooks, and
//! then in the driver. Each process writes a record.

mod front;
mod hangs;
mod messages;
mod python;
mod signals;
pub(crate) mod trust;
mod usage;

use std::collections::HashSet;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use kernel_registry_command::simulator::library_path;
use kernel_registry_command::{Failure as Shared, terminal, with_causes};
use kernel_registry_cuda::SharedObject;

use self::front::Front;
use self::hangs::Hangs;
use self::messages::Messages;
use self::trust::{absolute, followed};
use super::bake;
use super::cli::Run;
use super::failure::Failure;
use super::how_run::{HowRun, quoted};
use super::libraries;
use super::preload;
use super::process::{self, Audit, Own, record_files};
use super::together::{self, Running};
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
    // A missing driver is reported before the hooks are built.
    let driver = libraries::driver(options.sim, options.offline)?;
    let hooks = libraries::hooks(options.offline)?;
    let needed = [libraries::loadable(&hooks)?, libraries::loadable(&driver)?];

    let front = Front::new()?;
    let temporary;
    let records = match &options.records {
        // A link that the user made counts as the folder that it leads to.
        Some(records) if records.is_symlink() => followed(records).map_err(Failure::not_written(records))?,
        Some(records) => absolute(records)?,
        None => {
            let in_words = |source| Failure::NoTemporary { folder: env::temp_dir(), source };
            temporary = tempfile::tempdir().map_err(in_words)?;
            front.link(temporary.path())?
        }
    };
    // The folder is tried now, because processes could not tell this command that they cannot write records.
    fs::create_dir_all(&records)
        .and_then(|()| tempfile::tempfile_in(&records))
        .map_err(Failure::not_written(&records))?;
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", library_path(front.path()));
    command.envs([
        (variables::DRIVER, driver.clone().into_os_string()),
        (variables::RECORDS, records.clone().into_os_string()),
        (variables::RUN, front.run().into()),
        (variables::AFTER_READY, options.after_ready.clone().into()),
        (variables::HANG_AFTER, options.hang_after.to_string().into()),
        (variables::ON_HANG, options.on_hang.clone().into()),
        (variables::SLOW_MS, options.slow.to_string().into()),
        (variables::EVENTS, options.events.to_string().into()),
    ]);
    // The preload is read before `--record` writes, which can be to the same file. The program runs also if the preload
    // cannot be read.
    let given = match options.preload.as_deref().map(preload::read).transpose() {
        Ok(given) => given,
        Err(why) => {
            terminal::say(format_args!("warning: nothing is preloaded: {}", with_causes(&why)));
            None
        }
    };
    if let Some(file) = options.preload.as_ref().filter(|_| given.is_some()) {
        command.env(variables::PRELOAD, absolute(file)?).env(variables::PRELOAD_AT, &options.preload_at);
    }
    if options.reports.record.is_some() || options.records.is_some() {
        command.env(variables::IMAGES, records.join(process::IMAGES));
    }
    if let Some(seconds) = options.ready_after {
        command.env(variables::READY_AFTER, seconds.to_string());
    }
    if let Some(seconds) = options.first {
        command.env(variables::FIRST, seconds.to_string());
    }
    if let Some(file) = &options.ready_file {
        command.env(variables::READY_FILE, absolute(file)?);
    }
    let records_compiled = options.reports.record.is_some() || options.records.is_some();
    if !options.no_nvrtc
        && (records_compiled || given.as_ref().is_some_and(|given| !given.compiled.is_empty()))
    {
        match libraries::auditor(options.offline).and_then(|auditor| front.put_auditor(&auditor, &hooks)) {
            Ok(auditor) => drop(command.env("LD_AUDIT", auditor).env("GLIBC_TUNABLES", Front::tunables())),
            Err(why) => {
                let why = with_causes(&why);
                terminal::say(format_args!(
                    "warning: results of NVRTC are neither recorded nor given back: {why}"
                ));
            }
        }
    }
    if options.on_hang == "abort" && !python::all_frames_are_read(program) && !python::chooses_itself() {
        command.env(python::FAULTHANDLER, "1");
    }
    let own = Own::after(&records, front.run());
    // Without a socket, processes only count the messages that they cannot write.
    let mut messages = Messages::new().ok();
    command.envs(messages.iter().flat_map(Messages::variables));
    let constant = variables::constant(command.get_envs());
    let constants: &[(_, &[u8])] = &[(variables::CONSTANT, &constant)];
    let stub = SharedObject { name: "libcuda.so.1", constants, needed: &needed, ..SharedObject::default() };
    front.put(&stub.bytes())?;
    let blocked = signals::outlive(&mut command);
    let mut running =
        command.spawn().map_err(|error| Shared::NotRun { program: program.clone(), source: error })?;
    signals::program_runs(running.id(), blocked);
    let mut run = HowRun::new(words);
    run.tool += if options.sim { " --sim" } else { "" };
    run.program = quoted(&options.command);
    let file = |file: &PathBuf| quoted(&[file.into()]);
    run.record = options.reports.record.as_ref().map(file);
    run.preload = options.preload.as_ref().filter(|_| given.is_some()).map(file);
    run.hangs_end = options.on_hang == "abort";
    let mut processes = Running::follow_program(records.clone(), own.clone(), run.clone());
    let mut hangs = Hangs { records: records.clone(), own: own.clone(), run, said: HashSet::new() };
    let mut was_together = false;
    let status = thread::scope(|scope| {
        let (running_still, has_ended) = mpsc::channel::<()>();
        let (messages, hangs, was_together) = (&mut messages, &mut hangs, &mut was_together);
        let looks = scope.spawn(move || {
            while has_ended.recv_timeout(together::STEP) == Err(RecvTimeoutError::Timeout) {
                messages.iter_mut().for_each(|messages| hangs.say(messages.say(), true));
                if let Some(hangs) = processes.look() {
                    *was_together = true;
                    terminal::say(hangs);
                }
            }
        });
        let status = signals::wait(&mut running);
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
    let mut audit = Audit::read(record_files(&records).into_iter().filter(|path| own.has(path)))?;
    (audit.said, audit.was_interrupted) = (hangs.said, was_interrupted);
    audit.set_run(hangs.run);
    audit.was_together = was_together;
    audit.left_out.extend(without_record.unwrap_or_default());
    audit.has_ready_file = options.ready_file.is_some();
    terminal::say(&audit);
    options.reports.write(&audit, given.unwrap_or_default(), false)?;
    if let Some(file) = options.reports.record.as_ref().filter(|file| file.exists()) {
        bake::bake_with_driver(file, &driver);
    }
    match code(status) {
        0 => audit.verdict()?,
        code => return Err(Failure::Failed { code }),
    }
    match usage::asks(options).filter(|_| audit.processes.is_empty()) {
        Some(option) => Err(Failure::NothingAudited { option }),
        None => Ok(()),
    }
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

/// Returns the exit code of a program as shells do: 128 and the signal's number, if a signal ended it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
