//! Runs a program to find races.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{self, Command, ExitStatus};

use kernel_registry_command::{Failure as Shared, many, terminal};

use crate::failure::Failure;

const RACES: &str = "KERNEL_REGISTRY_SIM_RACES";

/// Counts of the bytes that drivers of the program and its children have appended to a file.
#[derive(Default)]
struct Noted {
    /// Processes that have initialised the driver.
    begun: usize,
    races: usize,
    /// Launches of kernels that aren't watched.
    unwatched: usize,
}

impl Noted {
    fn read(file: &Path) -> Self {
        let bytes = fs::read(file).unwrap_or_default();
        let count = |noted: u8| bytes.iter().filter(|byte| **byte == noted).count();
        Noted { begun: count(b'b'), races: count(b'r'), unwatched: count(b'u') }
    }
}

/// Runs the program, and fails if it has races.
pub(super) fn run(program: &OsStr, command: &mut Command) -> Result<(), Failure> {
    let noted = tempfile::NamedTempFile::new().map_err(Shared::of_io(&env::temp_dir()))?;
    command.env(RACES, noted.path());
    end_with_this_command(command);
    let failed = |source| Shared::NotRun { program: program.into(), source };
    let status = command.status().map_err(failed)?;
    let Noted { begun, races, unwatched } = Noted::read(noted.path());
    if !status.success() {
        drop(noted);
        process::exit(code(status));
    }
    if races > 0 {
        return Err(Failure::Races { races });
    }
    if begun == 0 {
        return Err(Failure::NothingWatched);
    }
    if unwatched > 0 {
        let kernels = many(unwatched, "kernel");
        terminal::say(format_args!("warning: {kernels} with clusters ran and weren't watched for races"));
    }
    terminal::say("no race was found, in one order: `--explore 1000` tries others");
    Ok(())
}

/// Lets Linux end the program when a signal ends this command, which otherwise would have become the program.
pub(super) fn end_with_this_command(command: &mut Command) {
    let end = || {
        // SAFETY: the call takes numbers, and only has an effect on this process.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the function makes one system call, and allocates nothing.
    unsafe { command.pre_exec(end) };
}

/// Returns the exit code that a shell would return.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
