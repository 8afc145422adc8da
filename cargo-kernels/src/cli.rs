//! The command line, parsed by clap: what was asked. Each command has a file here, and its module says what that means.

#[cfg(target_os = "linux")]
mod audit;
mod build;
mod check;
mod completions;
mod declare;
mod diff;
mod doctor;
mod fit;
mod list;
mod new;
mod prebuild;
mod show;
#[cfg(target_os = "linux")]
mod sim;

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

use crate::failure::Failure;

#[cfg(target_os = "linux")]
pub(crate) use self::audit::Audit;
pub(crate) use self::build::{Build, Package};
pub(crate) use self::check::{Check, Deny};
pub(crate) use self::completions::Completions;
pub(crate) use self::declare::Declare;
pub(crate) use self::diff::{Diff, DiffLimits};
pub(crate) use self::doctor::Doctor;
pub(crate) use self::fit::Fit;
pub(crate) use self::list::List;
pub(crate) use self::new::{New, Vcs};
pub(crate) use self::prebuild::Prebuild;
pub(crate) use self::show::Show;
#[cfg(target_os = "linux")]
pub(crate) use self::sim::Sim;

#[derive(Parser)]
#[command(name = "cargo", bin_name = "cargo", disable_help_subcommand = true)]
pub(crate) enum Cargo {
    /// GPU kernels of a program: list, show and check them in its binary, declare and prebuild them, diagnose this machine,
    /// or run without a GPU
    Kernels(Kernels),
}

#[derive(Args)]
#[command(version, arg_required_else_help = true)]
pub(crate) struct Kernels {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the kernels registered in a binary, or in the binaries that the package builds
    List(List),
    /// Show one kernel in full: its declaration, and the resources it uses in each variant of its image
    Show(Show),
    /// Compare declarations with images: those in the binary, or images built elsewhere
    Check(Check),
    /// Compare the kernels of two builds: added, removed, signatures, registers, stack, shared memory, code
    Diff(Diff),
    /// Compute which kernels fit beside one that stays on the GPU, without a GPU
    Fit(Fit),
    /// Write a Rust module that declares the kernels of an image or a CUDA source, or check that one is up to date
    Declare(Declare),
    /// Make the images of a package's CUDA sources that are committed, for builds without a CUDA compiler
    Prebuild(Prebuild),
    /// Make a new package with a kernel, its declaration, and a test that needs no GPU
    New(New),
    /// Diagnose whether kernels can be warmed and launched here: driver, GPUs, variables, compiler, cudarc
    Doctor(Doctor),
    /// Run a program on a simulated CUDA driver, without a GPU: `cargo kernels sim cargo test`
    #[cfg(target_os = "linux")]
    Sim(Sim),
    /// Watch a program's driver calls: what it loads late, what takes long, and what never returns
    #[cfg(target_os = "linux")]
    Audit(Audit),
    /// Write a script with which a shell completes the arguments of `cargo-kernels`
    Completions(Completions),
}

/// The arguments as cargo passes them: `cargo-kernels list` and `cargo kernels list` mean the same.
pub(crate) fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_none_or(|first| first != "kernels") {
        arguments.insert(arguments.len().min(1), "kernels".into());
    }
    arguments
}

/// The program of a command, and its arguments. What begins with a dash is a mistyped option.
pub(crate) fn program(command: &[OsString]) -> Result<Option<(&OsString, &[OsString])>, Failure> {
    match command.split_first() {
        Some((option, _)) if option.as_encoded_bytes().starts_with(b"-") => {
            Err(Failure::NoOption { option: option.clone() })
        }
        split => Ok(split),
    }
}
