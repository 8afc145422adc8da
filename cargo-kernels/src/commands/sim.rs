//! `cargo kernels sim`: runs any program on the simulated driver.
//!
//! kernel-registry-command builds the driver as a shared library, and puts it into a folder where the loader looks. The driver lacks
//! functions that are newer than the simulated version. `about` describes it in a sentence. Then the program replaces this process,
//! so that exit code and signals are the program's. Only `runs`, for races, and `explore`, for several orders, wait for it.

mod about;
mod explore;
mod runs;

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use kernel_registry_command::driver::Refused;
use kernel_registry_command::libraries::{self, SIM};
use kernel_registry_command::simulator::{library_path, prepare};
use kernel_registry_command::{Failure as Shared, terminal};

use crate::cli::Sim;
use crate::failure::Failure;

pub(crate) fn run(options: &Sim) -> Result<(), Failure> {
    let Some((program, arguments)) = terminal::program(&options.command)? else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments);

    // Building the driver at the first use takes half a minute, so a mistyped name is reported before.
    if !exists(program) {
        let source = io::ErrorKind::NotFound.into();
        return Err(Shared::NotRun { program: program.clone(), source }.into());
    }
    let built = libraries::built(&SIM, options.offline)?;
    for (name, value) in variables(options) {
        // SAFETY: this process has only had one thread so far, so no other thread reads the environment.
        unsafe { env::set_var(name, value) };
    }
    for name in CALL_VARIABLES {
        if let Some(value) = env::var_os(name) {
            command.env(name, value);
            // SAFETY: as above.
            unsafe { env::remove_var(name) };
        }
    }
    let (folder, driver) = prepare(&built)?;
    let refused =
        |refused: Refused| Shared::NotLoaded { path: built.library.clone(), why: refused.to_string() };
    terminal::say(format_args!("SIMULATED: {}", about::sentence(&driver).map_err(refused)?));

    command.env("LD_LIBRARY_PATH", library_path(&folder));
    if let Some(schedules) = options.explore {
        return explore::run(options, schedules, program, &mut command);
    }
    if options.races {
        return runs::run(program, &mut command);
    }
    let error = command.exec();
    Err(Shared::NotRun { program: program.clone(), source: error }.into())
}

/// Returns whether a program exists: in the folders of `PATH`, unless its name has a slash.
fn exists(program: &OsStr) -> bool {
    if Path::new(program).components().count() > 1 {
        return Path::new(program).exists();
    }
    // Without `PATH`, the system searches default folders.
    let Some(path) = env::var_os("PATH") else { return true };
    env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// Variables that affect driver calls. Only the program gets them: they must not affect our own calls, which describe the driver.
const CALL_VARIABLES: [&str; 2] = ["KERNEL_REGISTRY_SIM_FAULTS", "KERNEL_REGISTRY_SIM_TIMING"];

/// Returns the variables that configure the driver.
fn variables(options: &Sim) -> impl Iterator<Item = (String, &str)> {
    let given = [("DEVICES", &options.devices), ("DRIVER", &options.driver), ("DEADLOCK", &options.deadlock)];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let set = options.set.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    given.chain(set).map(|(name, value)| (format!("KERNEL_REGISTRY_SIM_{name}"), value))
}
