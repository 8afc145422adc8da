//! The command `cargo kernels`. It lists, shows and checks the GPU kernels of a program, which it reads from the binary, without a
//! GPU and without running the program. It also compares the kernels of two builds, computes which kernels fit beside a resident
//! kernel, declares the kernels of an image, makes committed images and new packages, diagnoses the machine, runs programs on a
//! simulated driver, and watches their driver calls.
//!
//! `cli` parses the command line. The commands are `list`, `show`, `check`, `diff`, `fit`, `declare`, `prebuild`, `bake`, `new`,
//! `doctor`, `sim` and `audit`. The commands share these modules, none of which imports a command:
//!
//! - binaries: `artifacts` (builds with cargo), `binary` (its records), `binaries` (several files),
//!   `copies` (of kernel-registry), `unlinked` (dependencies that were not linked), `kernel_name` (how people name kernels);
//! - images: `recorded` (what records say of an image), `embedded` (the image of a record), `ptx_images` (images with
//!   PTX, and their baked code), `alone` (images that no record describes), `unread` (variants that cannot be
//!   read), `compare` (compares a declaration with an image);
//! - kernels: `shown` (describes the kernels of files), `document` (the model that text and JSON are written from);
//! - output: `table` (text), `json`, `failure` (errors and exit codes).
//!
//! The crate kernel-registry-command has what this command shares with kernel-audit.

mod alone;
mod artifacts;
mod bake;
mod binaries;
mod binary;
mod check;
mod cli;
mod compare;
mod copies;
mod declare;
mod diff;
mod doctor;
mod document;
mod embedded;
mod failure;
mod fit;
mod json;
mod kernel_name;
mod linked;
mod list;
mod new;
mod prebuild;
mod ptx_images;
mod recorded;
mod show;
mod shown;
#[cfg(target_os = "linux")]
mod sim;
mod table;
mod unlinked;
mod unread;

use std::process::ExitCode;

use kernel_registry_command::{finish, parse};

use crate::cli::{Cargo, Command};
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
        Command::Sim(options) => sim::run(&options),
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
