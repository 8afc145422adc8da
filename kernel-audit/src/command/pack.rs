//! Packs the command into a folder, for machines without Rust.

use std::io::Write;
use std::path::Path;
use std::{env, fs};

use kernel_registry_command::libraries::{SIM, built};
use kernel_registry_command::simulator::prepare;
use kernel_registry_command::terminal;

use super::cli::Pack;
use super::failure::Failure;
use super::libraries;

/// Copies this command and its libraries to a folder, and with `--sim` the simulated driver, too. In that folder the
/// command finds the libraries beside itself.
pub(crate) fn pack(options: &Pack, words: &str) -> Result<(), Failure> {
    let folder = &options.folder;
    let (hooks, auditor) = (libraries::hooks(options.offline)?, libraries::auditor(options.offline)?);
    let command = env::current_exe().map_err(Failure::of_io(Path::new("/proc/self/exe")))?;
    fs::create_dir_all(folder).map_err(Failure::of_io(folder))?;
    for file in [&command, &hooks, &auditor] {
        let copy = folder.join(file.file_name().unwrap_or_default());
        fs::copy(file, &copy).map_err(Failure::of_io(&copy))?;
    }
    if options.sim {
        let (simulated, _) = prepare(&built(&SIM, options.offline)?)?;
        let copy = folder.join(libraries::PACKED_SIM);
        fs::create_dir_all(copy.parent().unwrap_or(folder)).map_err(Failure::of_io(folder))?;
        fs::copy(simulated.join("libcuda.so.1"), &copy).map_err(Failure::of_io(&copy))?;
    }
    let command = folder.join(command.file_name().unwrap_or_default());
    let sim = if options.sim {
        "with or without `--sim`"
    } else {
        "without `--sim`: that packs the simulated driver, too"
    };
    Ok(terminal::print(|out| {
        writeln!(out, "on another machine: {}{words} PROGRAM ARGUMENTS; {sim}", command.display())
    })?)
}
