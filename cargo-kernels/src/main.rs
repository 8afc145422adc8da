//! `cargo kernels`: what a program's GPU kernels are, read from the binary, without a GPU and without running it;
//! and whether they can run on this machine.

mod artifacts;
mod binaries;
mod binary;
mod check;
mod cli;
mod compare;
mod doctor;
mod embedded;
mod failure;
mod foreign;
mod json;
mod list;
mod mapped;
mod show;
mod table;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cargo, Command};

fn main() -> ExitCode {
    let Cargo::Kernels(kernels) = Cargo::parse_from(cli::arguments());
    let outcome = match kernels.command {
        Command::List(options) => list::run(&options),
        Command::Show(options) => show::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Doctor(options) => doctor::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
