//! Runs a program to find races, or in several orders.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command, ExitStatus};

use kernel_registry_command::{Failure as Shared, many, terminal};

use crate::cli::Sim;
use crate::failure::Failure;

const RACES: &str = "KERNEL_REGISTRY_SIM_RACES";
const ORDER: &str = "KERNEL_REGISTRY_SIM_ORDER";

/// Runs the program once or in several orders, until it fails or has races.
pub(super) fn run(options: &Sim, program: &OsStr, command: &mut Command) -> Result<(), Failure> {
    // The driver writes a byte into the file for each race.
    let found = tempfile::NamedTempFile::new().map_err(Shared::of_io("a temporary file".as_ref()))?;
    if options.races {
        command.env(RACES, found.path());
    }
    let orders = options.orders.unwrap_or(1);
    for order in 1..=orders {
        if options.orders.is_some() {
            command.env(ORDER, order.to_string());
        }
        let failed = |source| Shared::NotRun { program: program.into(), source };
        let status = command.status().map_err(failed)?;
        let races = fs::metadata(found.path()).map_or(0, |its| its.len()) as usize;
        let again = options.orders.map(|_| order);
        if !status.success() {
            if let Some(order) = again {
                terminal::say(format_args!("it failed in order {order}: `--set ORDER={order}` repeats that"));
            }
            drop(found);
            process::exit(code(status));
        }
        if races > 0 {
            return Err(Failure::Races { races, order: again });
        }
    }
    let races = if options.races { ", and no race was found" } else { "" };
    if options.orders.is_some() {
        terminal::say(format_args!("it succeeded in {} by chance{races}", many(orders as usize, "order")));
    } else {
        terminal::say("no race was found, in one order: `--orders 100` tries others");
    }
    Ok(())
}

/// Returns the exit code that a shell would return.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
