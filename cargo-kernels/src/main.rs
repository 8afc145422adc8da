//! `cargo kernels`: what a program's GPU kernels are, read from the binary, without a GPU and without running it;
//! whether they can run on this machine; and running them without a GPU.

// The simulated driver is for Linux, and with it what only `sim` uses.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

mod artifacts;
mod binaries;
mod binary;
mod check;
mod cli;
mod compare;
mod copies;
mod doctor;
mod embedded;
mod failure;
mod foreign;
mod list;
mod mapped;
mod show;
#[cfg(target_os = "linux")]
mod sim;

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
        #[cfg(target_os = "linux")]
        Command::Sim(options) => sim::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
