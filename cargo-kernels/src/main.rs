//! `cargo kernels`: reads a program's GPU kernels from its binary, without a GPU and without running it; compares those of two
//! builds; computes which fit alongside a resident kernel; declares the kernels of an image; makes images that are committed, and
//! packages with kernels; diagnoses the machine; runs programs on a simulated driver; and watches their driver calls.
//!
//! `cli` says what was asked. The commands are `list`, `show`, `check`, `diff`, `fit`, `declare`, `prebuild`, `new`, `doctor`,
//! `sim`, `audit` and `completions`. They share, and no arrow points from these back to a command:
//!
//! - binaries: `artifacts` (builds with cargo), `mapped` (a file in memory), `binary` (its records), `binaries` (several files),
//!   `copies` (of kernel-registry), `unlinked` (dependencies that were not linked), `kernel_name` (what kernels are asked for by);
//! - images: `embedded` (of a record), `alone` (in no binary), `image_file`, `unread` (what cannot be read), `compare` (declaration
//!   and image);
//! - kernels: `shown` (those asked for, with their images), `document` (their description, as text and JSON have it);
//! - drivers: `shared` and `folder` (libraries that stand in for the driver);
//! - output: `table` (text), `json`, `page` (HTML), `plural`, `terminal` (all that is printed), `failure` (errors and exit codes).

// The simulated driver exists for Linux only, and so do the parts that only `sim` and `audit` use.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

mod alone;
mod artifacts;
#[cfg(target_os = "linux")]
mod audit;
mod binaries;
mod binary;
mod check;
mod cli;
mod compare;
mod completions;
mod copies;
mod declare;
mod diff;
mod doctor;
mod document;
mod embedded;
mod failure;
mod fit;
#[cfg(target_os = "linux")]
mod folder;
mod image_file;
mod json;
mod kernel_name;
mod linked;
mod list;
mod mapped;
mod new;
#[cfg(target_os = "linux")]
mod page;
mod plural;
mod prebuild;
#[cfg(target_os = "linux")]
mod shared;
mod show;
mod shown;
#[cfg(target_os = "linux")]
mod sim;
mod table;
mod terminal;
mod unlinked;
mod unread;

use std::ffi::OsString;
use std::process::{self, ExitCode};

use clap::Parser;
use kernel_registry_format::Printable;

use crate::cli::{Cargo, Command};

fn main() -> ExitCode {
    let Cargo::Kernels(kernels) = parsed();
    let outcome = match kernels.command {
        Command::List(options) => list::run(&options),
        Command::Show(options) => show::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Diff(options) => diff::run(&options),
        Command::Fit(options) => fit::run(&options),
        Command::Declare(options) => declare::run(&options),
        Command::Prebuild(options) => prebuild::run(&options),
        Command::New(options) => new::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        #[cfg(target_os = "linux")]
        Command::Sim(options) => sim::run(&options),
        #[cfg(target_os = "linux")]
        Command::Audit(options) => audit::run(&options),
        Command::Completions(options) => completions::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::say(format_args!("error: {failure}"));
            ExitCode::from(failure.code())
        }
    }
}

/// The command line. What is wrong with it is said in colours, unless arguments in it mean something to a terminal.
fn parsed() -> Cargo {
    let arguments = cli::arguments();
    let is_printable = |argument: &OsString| {
        let text = argument.to_string_lossy();
        Printable(&text).to_string() == text
    };
    let are_printable = arguments.iter().all(is_printable);
    Cargo::try_parse_from(arguments).unwrap_or_else(|error| {
        if are_printable {
            error.exit();
        }
        terminal::say(error.render());
        process::exit(error.exit_code())
    })
}
