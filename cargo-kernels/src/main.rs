//! The command `cargo kernels`. It lists, shows and checks the GPU kernels of a program, which it reads from the binary, without a
//! GPU and without running the program. It also compares the kernels of two builds, computes which kernels fit beside a resident
//! kernel, declares the kernels of an image, makes committed images and new packages, diagnoses the machine, runs programs on a
//! simulated driver, and watches their driver calls.
//!
//! Each module imports only those below it:
//!
//! - `commands`: the commands;
//! - `kernels`: describes the kernels of files, finds them by name, and reads images without declarations;
//! - `binaries`: opens binaries, or has cargo build them (`artifacts`), and finds dependencies that rustc
//!   didn't link (`unlinked`);
//! - `images`: the images of declared kernels: finds them in the binary (`embedded`), compares them with the
//!   declarations (`compare`), and reads their PTX and its baked code (`ptx`);
//! - `document`: the model that text and JSON are written from;
//! - `binary`: the records in a binary, its copies of kernel-registry, and the fatbins that nvcc linked;
//! - `cli`: the command line, parsed by clap;
//! - `output`: tables and JSON;
//! - `failure`: errors and exit codes.
//!
//! kernel-registry-command is shared with kernel-audit.

mod binaries;
mod binary;
mod cli;
mod commands;
mod document;
mod failure;
mod images;
mod kernels;
mod output;

use std::process::ExitCode;

use kernel_registry_command::{finish, parse};

use crate::cli::{Cargo, Command};
use crate::commands::{bake, check, declare, diff, doctor, fit, list, new, prebuild, show};
use crate::failure::Failure;

fn main() -> ExitCode {
    let Cargo::Kernels(kernels) = parse(cli::arguments());
    let outcome = match kernels.command {
        Command::List(options) => list::run(&options),
        Command::Show(options) => show::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Diff(options) => diff::run(&options),
        Command::Fit(options) => fit::run(&options),
        Command::Declare(options) => declare::run(&options),
        Command::Prebuild(options) => prebuild::run(&options),
        Command::Bake(options) => bake::run(&options),
        Command::New(options) => new::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        #[cfg(target_os = "linux")]
        Command::Sim(options) => commands::sim::run(&options),
        #[cfg(target_os = "linux")]
        Command::Audit(options) => {
            kernel_audit::command::run(&options, " kernels audit").map_err(Failure::from)
        }
        #[cfg(not(target_os = "linux"))]
        Command::Sim(_) => Err(Failure::OnLinux { command: "sim" }),
        #[cfg(not(target_os = "linux"))]
        Command::Audit(_) => Err(Failure::OnLinux { command: "audit" }),
    };
    finish(outcome, Failure::code)
}
