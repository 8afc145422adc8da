//! Runs a program to find races, or in several orders.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{self, Command, ExitStatus};

use kernel_registry_command::{Failure as Shared, many, terminal};

use crate::cli::Sim;
use crate::failure::Failure;

const RACES: &str = "KERNEL_REGISTRY_SIM_RACES";
const ORDER: &str = "KERNEL_REGISTRY_SIM_ORDER";

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
    /// Reads the file, and empties it.
    fn take(file: &Path) -> Self {
        let bytes = fs::read(file).unwrap_or_default();
        let _ = File::create(file);
        let count = |noted: u8| bytes.iter().filter(|byte| **byte == noted).count();
        Noted { begun: count(b'b'), races: count(b'r'), unwatched: count(b'u') }
    }
}

/// Runs the program once or in several orders, until it fails or has races.
pub(super) fn run(options: &Sim, program: &OsStr, command: &mut Command) -> Result<(), Failure> {
    let noted = tempfile::NamedTempFile::new().map_err(Shared::of_io(&env::temp_dir()))?;
    if options.races {
        command.env(RACES, noted.path());
    }
    end_with_this_command(command);
    let (orders, mut unwatched) = (options.orders.unwrap_or(1), 0);
    for order in 1..=orders {
        if options.orders.is_some() {
            command.env(ORDER, order.to_string());
        }
        let failed = |source| Shared::NotRun { program: program.into(), source };
        let status = command.status().map_err(failed)?;
        let found = Noted::take(noted.path());
        let again = options.orders.map(|_| order);
        if !status.success() {
            if let Some(order) = again {
                terminal::say(format_args!("it failed in order {order}: `--set ORDER={order}` repeats that"));
            }
            drop(noted);
            process::exit(code(status));
        }
        if found.races > 0 {
            return Err(Failure::Races { races: found.races, order: again });
        }
        if options.races && found.begun == 0 {
            return Err(Failure::NothingWatched);
        }
        unwatched += found.unwatched;
    }
    say(options, unwatched);
    Ok(())
}

/// Says what was found, and how much was looked at.
fn say(options: &Sim, unwatched: usize) {
    if unwatched > 0 {
        let kernels = many(unwatched, "kernel");
        terminal::say(format_args!("warning: {kernels} with clusters ran and weren't watched for races"));
    }
    let races = if options.races { ", and no race was found" } else { "" };
    match options.orders {
        Some(orders) => {
            terminal::say(format_args!("it succeeded in {} by chance{races}", many(orders as usize, "order")))
        }
        None => terminal::say("no race was found, in one order: `--orders 100` tries others"),
    }
}

/// Lets Linux end the program when a signal ends this command, which otherwise would have become the program.
fn end_with_this_command(command: &mut Command) {
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
