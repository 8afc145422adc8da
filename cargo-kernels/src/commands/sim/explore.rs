//! Runs a program in many orders, each in a process of its own.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kernel_registry_command::{Failure as Shared, terminal};
use kernel_registry_schedule::variables::{DETAILED, PLAN, RECORD, ROOM, SCHEDULE};
use kernel_registry_schedule::{End, Limits, Plan, Record, Report, Runner, search};

use super::runs::end_with_this_command;
use crate::cli::Sim;
use crate::failure::Failure;

/// A run that takes longer doesn't end.
const LONGEST: Duration = Duration::from_secs(120);

/// Runs the program in up to so many orders, until it fails in one.
pub(super) fn run(
    options: &Sim,
    schedules: u64,
    program: &OsStr,
    command: &mut Command,
) -> Result<(), Failure> {
    let folder = tempfile::tempdir().map_err(Shared::of_io(&env::temp_dir()))?;
    end_with_this_command(command);
    command.env_remove(SCHEDULE);
    if env::var_os(ROOM).is_none() {
        command.env(ROOM, "little");
    }
    let width = thread::available_parallelism().map_or(1, usize::from);
    let mut programs =
        Programs { program, command, folder: folder.path(), width, number: 0, has_begun: false };
    if let Some(file) = env::var_os(SCHEDULE).map(PathBuf::from) {
        return repeat(&file, &mut programs);
    }
    let limits = Limits { schedules, time: Duration::MAX, seed: 1, depth: 3, width };
    let found = search(&limits, &mut programs)?;
    if !programs.has_begun {
        return Err(Failure::NothingWatched);
    }
    let Some(failure) = found.failure else {
        let races = if options.races { ", and no race was found" } else { "" };
        terminal::say(format_args!("it succeeded in {}{races}", found.coverage));
        return Ok(());
    };
    let record = programs.in_detail(&failure.plan)?;
    let report = Report { failure: &failure, record: &record, coverage: &found.coverage };
    let base = base(program);
    match report.write(&base) {
        Ok([schedule, picture]) => Err(Failure::Order { report: report.to_string(), schedule, picture }),
        Err(error) => Err(Failure::OrderNotWritten { report: report.to_string(), path: base, error }),
    }
}

/// Runs the schedule of a file.
fn repeat(file: &Path, programs: &mut Programs<'_>) -> Result<(), Failure> {
    let text = fs::read_to_string(file).map_err(Failure::of_io(file))?;
    let plan: Plan = text.parse().map_err(|error| Failure::NoSchedule { path: file.into(), error })?;
    if !plan.strict {
        return Err(Failure::CutSchedule { path: file.into() });
    }
    let record = programs.in_detail(&plan)?;
    if record.kind() == kernel_registry_schedule::Kind::Passed {
        terminal::say(format_args!("it succeeded in the order of `{}`", file.display()));
        return Ok(());
    }
    Err(Failure::SameOrder { reason: record.reason(), schedule: file.into() })
}

/// Returns the path of the files of a failing schedule, without their endings: in the build's folder if there is one.
fn base(program: &OsStr) -> PathBuf {
    let name = Path::new(program).file_name().unwrap_or(program);
    let folder = Path::new("target").join("schedules");
    let has_folder = Path::new("target").is_dir() && fs::create_dir_all(&folder).is_ok();
    if has_folder { folder.join(name) } else { PathBuf::from(name) }
}

/// Runs the program in processes.
struct Programs<'a> {
    program: &'a OsStr,
    command: &'a mut Command,
    folder: &'a Path,
    width: usize,
    number: u64,
    /// Whether any has initialised the driver.
    has_begun: bool,
}

/// A running process, and the files of its plan, its record and its output.
struct Running {
    process: Child,
    begun: Instant,
    files: [PathBuf; 3],
}

impl Programs<'_> {
    fn in_detail(&mut self, plan: &Plan) -> Result<Record, Failure> {
        self.command.env(DETAILED, "1");
        let mut records = self.run(std::slice::from_ref(plan))?;
        self.command.env_remove(DETAILED);
        Ok(records.pop().unwrap_or_default())
    }

    fn start(&mut self, plan: &Plan) -> Result<Running, Failure> {
        self.number += 1;
        let file = |kind: &str| self.folder.join(format!("{}.{kind}", self.number));
        let files = ["plan", "record", "output"].map(file);
        fs::write(&files[0], plan.to_string()).map_err(Failure::not_written(&files[0]))?;
        let output = || File::options().append(true).create(true).open(&files[2]);
        let (out, errors) = (output(), output());
        let [out, errors] = [out, errors].map(|file| file.map_err(Failure::not_written(&files[2])));
        self.command.env(PLAN, &files[0]).env(RECORD, &files[1]);
        self.command.stdin(Stdio::null()).stdout(out?).stderr(errors?);
        let failed = |source| Shared::NotRun { program: OsString::from(self.program), source };
        let process = self.command.spawn().map_err(failed)?;
        Ok(Running { process, begun: Instant::now(), files })
    }
}

impl Running {
    /// Waits for the end of the process, and reads its record.
    fn wait(mut self, plan: &Plan, has_begun: &mut bool) -> Result<Record, Failure> {
        let failed = Failure::of_io(&self.files[2]);
        let end = loop {
            if let Some(status) = self.process.try_wait().map_err(failed)? {
                break end(status);
            }
            if self.begun.elapsed() > LONGEST {
                let _ = self.process.kill();
                let _ = self.process.wait();
                break End::Late(LONGEST);
            }
            thread::sleep(Duration::from_millis(1));
        };
        let written = fs::read_to_string(&self.files[1]);
        *has_begun |= written.is_ok();
        let read = Record::read(&written.unwrap_or_default());
        let mut record = read.map_err(|error| Failure::NoSchedule { path: self.files[1].clone(), error })?;
        record.close(end, &String::from_utf8_lossy(&fs::read(&self.files[2]).map_err(failed)?), plan);
        self.files.iter().for_each(|file| drop(fs::remove_file(file)));
        Ok(record)
    }
}

fn end(status: ExitStatus) -> End {
    status.code().map_or_else(|| End::Signal(status.signal().unwrap_or(0)), End::Code)
}

impl Runner for Programs<'_> {
    type Error = Failure;

    fn run(&mut self, plans: &[Plan]) -> Result<Vec<Record>, Failure> {
        let mut records = Vec::new();
        for plans in plans.chunks(self.width) {
            let running = plans.iter().map(|plan| self.start(plan)).collect::<Result<Vec<_>, _>>()?;
            for (process, plan) in running.into_iter().zip(plans) {
                records.push(process.wait(plan, &mut self.has_begun)?);
            }
        }
        Ok(records)
    }
}
