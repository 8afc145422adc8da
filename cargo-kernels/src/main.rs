//! `cargo kernels`: what a program's GPU kernels are, read from the binary, without a GPU and without running it.

mod artifacts;
mod binary;
mod cli;
mod failure;
mod json;
mod list;
mod mapped;
mod table;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cargo, Command};

fn main() -> ExitCode {
    let Cargo::Kernels(kernels) = Cargo::parse_from(cli::arguments());
    let outcome = match kernels.command {
        Command::List(options) => list::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
