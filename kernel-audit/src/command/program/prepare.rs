//! Prepares a run: the libraries, the folders, the variables and the preload that the program gets.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use kernel_registry_command::simulator::library_path;
use kernel_registry_command::{Failure as Shared, terminal, with_causes};
use kernel_registry_cuda::SharedObject;
use tempfile::TempDir;

use super::front::Front;
use super::messages::Messages;
use super::python;
use crate::command::cli::{DEFAULT_HANG_AFTER, Run};
use crate::command::failure::Failure;
use crate::command::how_run::{HowRun, quoted};
use crate::command::process::{IMAGES, Own};
use crate::command::trust::{absolute, followed, temporary};
use crate::command::{libraries, preload};
use crate::preload::Preload;
use crate::variables;

/// What the simulated driver does in a deadlock.
const SIM_DEADLOCK: &str = "KERNEL_REGISTRY_SIM_DEADLOCK";

/// A program that is ready to run behind the hooks.
pub(super) struct Prepared {
    pub(super) command: Command,
    pub(super) driver: PathBuf,
    /// The folder for records.
    pub(super) records: PathBuf,
    /// Tells the records of this run from others in the folder.
    pub(super) own: Own,
    /// What `--preload` names, unless it can't be read.
    pub(super) given: Option<Preload>,
    /// Without a socket, processes only count the messages that they cannot write.
    pub(super) messages: Option<Messages>,
    pub(super) run: HowRun,
    /// The folder for records that nobody keeps.
    temporary: Option<TempDir>,
    /// The folder with the stub. It has a link to the temporary folder, and goes after that.
    _front: Front,
}

impl Prepared {
    /// Returns whether all records are needed: the user keeps them, or `--record` reads them in the end.
    pub(super) fn needs_all_records(&self) -> bool {
        self.temporary.is_none() || self.run.record.is_some()
    }
}

/// Prepares a run of a program. `words` follow the file of this command on the command line.
pub(super) fn prepare(
    options: &Run,
    words: &str,
    program: &OsString,
    arguments: &[OsString],
) -> Result<Prepared, Failure> {
    // A missing driver is reported before the hooks are built.
    let driver = libraries::driver(options.sim, options.offline)?;
    let hooks = libraries::hooks(options.offline)?;
    let needed = [libraries::loadable(&hooks)?, libraries::loadable(&driver)?];

    let front = Front::new()?;
    let (records, temporary) = records_folder(options, &front)?;
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", library_path(front.path()));
    set_variables(&mut command, options, &records)?;
    command.env(variables::DRIVER, &driver).env(variables::RUN, front.run());
    // The preload is read before `--record` writes, which can be to the same file.
    let given = read_preload(options);
    if let Some(file) = options.preload.as_ref().filter(|_| given.is_some()) {
        command.env(variables::PRELOAD, absolute(file)?).env(variables::PRELOAD_AT, &options.preload_at);
    }
    let keeps_compiled = options.reports.record.is_some() || options.records.is_some();
    let gets_compiled = given.as_ref().is_some_and(|given| !given.compiled.is_empty());
    if !options.no_nvrtc && (keeps_compiled || gets_compiled) {
        bind_nvrtc(&mut command, options, &front, &hooks);
    }
    if options.on_hang == "abort" && !python::all_frames_are_read(program) && !python::chooses_itself() {
        command.env(python::FAULTHANDLER, "1");
    }
    let messages = Messages::new().ok();
    command.envs(messages.iter().flat_map(Messages::variables));

    let constant = variables::constant(command.get_envs());
    let constants: &[(_, &[u8])] = &[(variables::CONSTANT, &constant)];
    let stub = SharedObject { name: "libcuda.so.1", constants, needed: &needed, ..SharedObject::default() };
    front.put(&stub.bytes())?;
    let (own, run) = (Own::after(&records, front.run()), how_run(options, words, given.is_some()));
    Ok(Prepared { command, driver, records, own, given, messages, run, temporary, _front: front })
}

/// Returns the folder for records. It's temporary unless the user keeps the records.
fn records_folder(options: &Run, front: &Front) -> Result<(PathBuf, Option<TempDir>), Failure> {
    let (records, temporary) = match &options.records {
        // A link that the user made counts as the folder that it leads to.
        Some(records) if records.is_symlink() => {
            (followed(records).map_err(Failure::not_written(records))?, None)
        }
        Some(records) => (absolute(records)?, None),
        None => {
            let in_words = |source| Failure::NoTemporary { folder: env::temp_dir(), source };
            // A service may have no other folder that takes files.
            let folder = temporary();
            let temporary =
                folder.tempdir().or_else(|_| folder.tempdir_in(front.path())).map_err(in_words)?;
            (front.link(temporary.path())?, Some(temporary))
        }
    };
    // The folder is tried now, because processes could not tell this command that they cannot write records.
    fs::create_dir_all(&records)
        .and_then(|()| tempfile::tempfile_in(&records))
        .map_err(Failure::not_written(&records))?;
    Ok((records, temporary))
}

/// Sets the variables that pass options to the hooks.
fn set_variables(command: &mut Command, options: &Run, records: &Path) -> Result<(), Failure> {
    command.envs([
        (variables::RECORDS, records.to_owned().into_os_string()),
        (variables::AFTER_READY, options.after_ready.clone().into()),
        (variables::HANG_AFTER, options.hang_after.to_string().into()),
        (variables::ON_HANG, options.on_hang.clone().into()),
        (variables::SLOW_MS, options.slow.to_string().into()),
        (variables::EVENTS, options.events.to_string().into()),
    ]);
    if options.reports.record.is_some() || options.records.is_some() {
        command.env(variables::IMAGES, records.join(IMAGES));
    }
    // Otherwise the simulator reports each hang first, in terms of its own.
    if options.sim && env::var_os(SIM_DEADLOCK).is_none() {
        command.env(SIM_DEADLOCK, "explained");
    }
    if options.on_hang == "abort" {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        command.env(variables::DEBUGGER, format!("{} {}", std::process::id(), namespace.display()));
    }
    if options.quiet {
        command.env(variables::QUIET, "1");
    }
    if let Some(seconds) = options.ready_after {
        command.env(variables::READY_AFTER, seconds.to_string());
    }
    if let Some(seconds) = options.first {
        command.env(variables::FIRST, seconds.to_string());
    }
    if let Some(file) = &options.ready_file {
        command.env(variables::READY_FILE, absolute(file)?);
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        command.env(variables::BEGAN, began.as_secs_f64().to_string());
    }
    Ok(())
}

/// Reads the preload. The program runs also if that can't be read.
fn read_preload(options: &Run) -> Option<Preload> {
    let file = options.preload.as_deref()?;
    match preload::read(file) {
        Ok(preload) => Some(preload),
        // The first run of a service that adds to its own preload.
        Err(Failure::Shared(Shared::Missing { .. })) if options.reports.record.as_deref() == Some(file) => {
            None
        }
        Err(why) => {
            terminal::say(format_args!("warning: nothing is preloaded: {}", with_causes(&why)));
            None
        }
    }
}

/// Lets the loader bind NVRTC's functions to the hooks. The program runs also without that.
fn bind_nvrtc(command: &mut Command, options: &Run, front: &Front, hooks: &Path) {
    match libraries::auditor(options.offline).and_then(|auditor| front.put_auditor(&auditor, hooks)) {
        Ok(auditor) => drop(command.env("LD_AUDIT", auditor).env("GLIBC_TUNABLES", Front::tunables())),
        Err(why) => terminal::say(format_args!(
            "warning: results of NVRTC are neither recorded nor given back: {}",
            with_causes(&why)
        )),
    }
}

/// Returns how the program is run, as remedies name it.
fn how_run(options: &Run, words: &str, preloads: bool) -> HowRun {
    let file = |file: &PathBuf| quoted(&[file.into()]);
    let mut run = HowRun::new(words);
    run.tool += if options.sim { " --sim" } else { "" };
    if options.hang_after != DEFAULT_HANG_AFTER {
        run.tool += &format!(" --hang-after {}", options.hang_after);
    }
    run.program = quoted(&options.command);
    run.record = options.reports.record.as_ref().map(file);
    run.preload = options.preload.as_ref().filter(|_| preloads).map(file);
    run.hangs_end = options.on_hang == "abort";
    run
}
