//! `cargo kernels audit`: runs any program with a library in front of the driver, and reports what loaded late, what took long
//! and what did not return.
//!
//! `shared` builds the library. A stub of its own, without code, has the driver's name; the loader finds functions first
//! in that library, and then in the driver. Each process writes a record, and `process` reads them.
//!
//! `groups`, `comparison` and `streams` sum up; `text`, `json`, `html` and `trace` write.

mod comparison;
mod front;
mod groups;
mod html;
mod json;
mod messages;
mod preload;
mod process;
mod signals;
mod streams;
mod symbols;
mod text;
mod together;
mod trace;
mod trust;
mod usage;
mod words;

use kernel_registry_audit::preload::Preload;
use kernel_registry_audit::variables;
use kernel_registry_cuda::shared_object;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::mem;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use self::front::Front;
use self::messages::Messages;
use self::process::{Audit, Own, record_files};
use self::together::Running;
use self::trust::followed;
use crate::binaries;
use crate::cli;
use crate::doctor::ask::mapped_driver;
use crate::doctor::libcuda::Library;
use crate::failure::Failure;
use crate::page;
use crate::shared::{self, AUDIT, SIM};
use crate::sim;
use crate::terminal;

pub(crate) fn run(options: &cli::Audit) -> Result<(), Failure> {
    usage::check(options)?;
    let files = [&options.json, &options.html, &options.trace].into_iter().flatten();
    for path in files.filter(|path| !is_output(path)) {
        can_be_written(path)?;
    }
    options.record.as_deref().map_or(Ok(()), preload::can_be_recorded)?;
    if !options.merge.is_empty() {
        return merge(options);
    }
    if !options.watch.is_empty() {
        return watch(&options.watch);
    }
    if let Some(folder) = &options.pack {
        return pack(folder, options);
    }
    let Some((program, arguments)) = cli::program(&options.command)? else { return Ok(()) };
    if env::var_os(variables::DRIVER).is_some() {
        return Err(Failure::AuditedAlready);
    }
    if let Some(file) = &options.ready_file {
        remove_mark(file)?;
    }
    // What is missing is said before anything is built.
    let driver = driver(options)?;
    let hooks = hooks(options)?;

    let front = Front::new()?;
    let temporary = tempfile::tempdir().map_err(Failure::of_io(&env::temp_dir()))?;
    let records = match &options.records {
        // One's own link is as good as the folder.
        Some(records) if records.is_symlink() => followed(records).map_err(Failure::not_written(records))?,
        Some(records) => absolute(records)?,
        None => front.link(temporary.path())?,
    };
    // Processes cannot tell this command that they have no place for their records.
    fs::create_dir_all(&records)
        .and_then(|()| tempfile::tempfile_in(&records))
        .map_err(Failure::not_written(&records))?;
    let needed = [&hooks, &driver].map(|path| path.to_string_lossy().into_owned());
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", sim::first(front.path()));
    command.envs([
        (variables::DRIVER, driver.into_os_string()),
        (variables::RECORDS, records.clone().into_os_string()),
        (variables::RUN, front.run().into()),
        (variables::AFTER_READY, options.after_ready.clone().into()),
        (variables::HANG_AFTER, options.hang_after.to_string().into()),
        (variables::ON_HANG, options.on_hang.clone().into()),
        (variables::SLOW_MS, options.slow.to_string().into()),
        (variables::EVENTS, options.events.to_string().into()),
    ]);
    // Before `--record` writes to it: it can be the same file. It never keeps the program from running.
    let given = match options.preload.as_deref().map(preload::read).transpose() {
        Ok(given) => given,
        Err(why) => {
            terminal::say(format_args!("warning: nothing is preloaded: {why}"));
            None
        }
    };
    if let Some(file) = options.preload.as_ref().filter(|_| given.is_some()) {
        command.env(variables::PRELOAD, absolute(file)?).env(variables::PRELOAD_AT, &options.preload_at);
    }
    if options.record.is_some() || options.records.is_some() {
        command.env(variables::IMAGES, records.join(process::IMAGES));
    }
    if let Some(seconds) = options.ready_after {
        command.env(variables::READY_AFTER, seconds.to_string());
    }
    if let Some(file) = &options.ready_file {
        command.env(variables::READY_FILE, absolute(file)?);
    }
    let own = Own::after(&records, front.run());
    if io::stderr().is_terminal() {
        command.env(variables::CTRL_C, "1");
    }
    // Without a socket they are counted.
    let mut messages = Messages::new().ok();
    command.envs(messages.iter().flat_map(Messages::variables));
    let constant = variables::constant(command.get_envs());
    let stub = shared_object(
        "libcuda.so.1",
        &[],
        &[(variables::CONSTANT, &constant)],
        &needed.each_ref().map(|path| &**path),
    );
    front.put(&stub)?;
    let blocked = signals::outlive(&mut command);
    let mut running = command.spawn().map_err(|error| Failure::NotRun { program: program.clone(), error })?;
    signals::program_runs(running.id(), blocked);
    let mut processes = Running::of_program(records.clone(), own.clone());
    let (status, messages) = thread::scope(|scope| {
        let (running_still, has_ended) = mpsc::channel::<()>();
        let looks = scope.spawn(move || {
            while has_ended.recv_timeout(together::STEP) == Err(RecvTimeoutError::Timeout) {
                messages.iter_mut().for_each(Messages::say);
                processes.look().into_iter().for_each(terminal::say);
            }
            messages
        });
        let status = signals::wait(&mut running);
        drop(running_still);
        (status, looks.join().unwrap_or_default())
    });
    let was_interrupted = signals::program_has_ended();
    let status = status.map_err(|error| Failure::Output { error })?;

    let mut audit = Audit::read(record_files(&records).into_iter().filter(|path| own.has(path)))?;
    (audit.was_said, audit.was_interrupted) = (true, was_interrupted);
    audit.left_out.extend(messages.map(Messages::without_record).unwrap_or_default());
    audit.hangs_end = options.on_hang == "abort";
    audit.has_ready_file = options.ready_file.is_some();
    terminal::say(&audit);
    write_files(options, &audit, given.unwrap_or_default())?;
    match code(status) {
        0 => verdict(&audit)?,
        code => return Err(Failure::Failed { code }),
    }
    match usage::asks(options).filter(|_| audit.processes.is_empty()) {
        Some(option) => Err(Failure::NothingAudited { option }),
        None => Ok(()),
    }
}

/// Fails if there are findings, or may be.
fn verdict(audit: &Audit) -> Result<(), Failure> {
    match (audit.findings(), audit.left_out.len(), audit.lack_threads()) {
        (0, 0, 0) => Ok(()),
        (0, 0, count) => Err(Failure::LackThreads { count }),
        (0, count, _) => Err(Failure::LeftOut { count }),
        (count, ..) => Err(Failure::Findings { count }),
    }
}

/// Removes the file that says that the program is ready, which an earlier run has left. Only an empty file is such a mark.
fn remove_mark(file: &Path) -> Result<(), Failure> {
    match fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(its) if its.is_file() && its.len() == 0 => {
            fs::remove_file(file).map_err(Failure::not_written(file))
        }
        _ => Err(Failure::NoMark { path: file.to_owned() }),
    }
}

/// The library of the hooks.
fn hooks(options: &cli::Audit) -> Result<PathBuf, Failure> {
    match shared::beside(&AUDIT) {
        Some(hooks) => Ok(hooks),
        None => Ok(shared::built(&AUDIT, options.offline)?.library),
    }
}

/// The path from the root: the program may have another working directory.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(Failure::of_io(path))
}

/// Whether the standard output is meant, in place of a file.
fn is_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// The simulated driver in a folder of `--pack`.
const PACKED_SIM: &str = "sim/libcuda.so.1";

/// Copies this command and the hooks to a folder, and with `--sim` the simulated driver. There the command finds the hooks beside itself.
fn pack(folder: &Path, options: &cli::Audit) -> Result<(), Failure> {
    let hooks = hooks(options)?;
    let command = env::current_exe().map_err(Failure::of_io(Path::new("/proc/self/exe")))?;
    fs::create_dir_all(folder).map_err(Failure::of_io(folder))?;
    for file in [&command, &hooks] {
        let copy = folder.join(file.file_name().unwrap_or_default());
        fs::copy(file, &copy).map_err(Failure::of_io(&copy))?;
    }
    if options.sim {
        let (simulated, _) = sim::prepare(&shared::built(&SIM, options.offline)?)?;
        let copy = folder.join(PACKED_SIM);
        fs::create_dir_all(copy.parent().unwrap_or(folder)).map_err(Failure::of_io(folder))?;
        fs::copy(simulated.join("libcuda.so.1"), &copy).map_err(Failure::of_io(&copy))?;
    }
    let command = folder.join(command.file_name().unwrap_or_default());
    let sim = if options.sim {
        "with or without `--sim`"
    } else {
        "without `--sim`: that packs the simulated driver, too"
    };
    binaries::print(|out| {
        writeln!(out, "on another machine: {} kernels audit PROGRAM ARGUMENTS; {sim}", command.display())
    })
}

/// Reports on the records of earlier programs.
fn merge(options: &cli::Audit) -> Result<(), Failure> {
    let (mut files, mut earlier) = (Vec::new(), Preload::default());
    let mut empty = Vec::new();
    for path in &options.merge {
        if path.is_dir() {
            let records = record_files(path);
            empty.extend(Some(path).filter(|_| records.is_empty()));
            files.extend(records);
        } else if usage::is_preload(path) {
            earlier.merge(preload::read(path)?);
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    let audit = Audit::read(files)?;
    let merges_preloads = earlier != Preload::default();
    write_files(options, &audit, earlier)?;
    if audit.processes.is_empty() && !merges_preloads {
        return Err(Failure::NothingToMerge { left_out: audit.left_out.len() });
    }
    for folder in empty {
        terminal::say(format_args!("warning: `{}` has no records", folder.display()));
    }
    if audit.processes.is_empty() {
        return Ok(());
    }
    match options.json.as_deref() {
        Some(path) if is_output(path) => terminal::say(&audit),
        _ => binaries::print(|out| write!(out, "{audit}"))?,
    }
    verdict(&audit)
}

/// Says what hangs in processes that run, until all have ended.
fn watch(folders: &[PathBuf]) -> Result<(), Failure> {
    let mut processes = Running::of_others(folders.to_vec());
    let mut is_first = true;
    loop {
        if let Some(hangs) = processes.look() {
            binaries::print(|out| write!(out, "{hangs}"))?;
        }
        if mem::take(&mut is_first) && processes.ended_before() > 0 {
            terminal::say(format_args!(
                "{} had ended before, and {} not watched: `--merge` reports on these",
                words::processes(processes.ended_before()),
                if processes.ended_before() == 1 { "is" } else { "are" }
            ));
        }
        if let Some(hangs) = processes.hangs_at_end() {
            return if hangs == 0 { Ok(()) } else { Err(Failure::Findings { count: hangs }) };
        }
        thread::sleep(together::STEP);
    }
}

/// Writes the reports that were asked for.
fn write_files(options: &cli::Audit, audit: &Audit, earlier: Preload) -> Result<(), Failure> {
    for why in &audit.left_out {
        terminal::say(format_args!("warning: {why}"));
    }
    match options.json.as_deref() {
        Some(path) if is_output(path) => binaries::print(|out| write!(out, "{}", json::text(audit)))?,
        path => write_file(path, || json::text(audit))?,
    }
    let merges_preloads = !options.merge.is_empty() && earlier != Preload::default();
    match &options.record {
        Some(file) if audit.processes.is_empty() && !merges_preloads => {
            terminal::say(format_args!("`{}` is not written: no process left a record", file.display()));
        }
        Some(file) => preload::record(file, audit, earlier)?,
        None => {}
    }
    write_file(options.html.as_deref(), || html::page(audit))?;
    write_file(options.trace.as_deref(), || trace::text(audit))
}

/// Tells before the program runs, which can take hours, that a report cannot be written. It makes no file.
fn can_be_written(path: &Path) -> Result<(), Failure> {
    let opens = || match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            tempfile::tempfile_in(std::path::absolute(path)?.parent().unwrap_or(path)).map(drop)
        }
        Err(error) => Err(error),
        // Opening a pipe waits for its reader, who would see its end.
        Ok(its) if its.file_type().is_fifo() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
    };
    followed(path).and_then(|_| opens()).map_err(Failure::not_written(path))
}

fn write_file(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    followed(path).map_err(Failure::not_written(path))?;
    page::write(path, &text())
}

/// The driver behind the hooks: the simulated one, or the one that the program would have found.
fn driver(options: &cli::Audit) -> Result<PathBuf, Failure> {
    if options.sim {
        if let Some(hooks) = shared::beside(&AUDIT) {
            let packed = hooks.with_file_name(PACKED_SIM);
            return if packed.is_file() { Ok(packed) } else { Err(Failure::PackedWithoutSim) };
        }
        let (folder, _) = sim::prepare(&shared::built(&SIM, options.offline)?)?;
        return Ok(folder.join("libcuda.so.1"));
    }
    let _driver = Library::found().map_err(|why| Failure::NoDriver { why })?;
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    mapped_driver(&maps).ok_or_else(|| Failure::NoDriver { why: "its file is not known".to_owned() })
}

/// The exit code of a program, as shells have it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
