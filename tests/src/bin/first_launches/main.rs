//! Generates kernels with random traits, and launches each for the first time while a resident kernel runs.
//! No launch may wait for that kernel, unless warming reports that the launched kernel's stack is unknown.
//! docs/testing.md has the details.
//!
//! The kernels become a separate package below cargo's target directory. Its executable uses the crate
//! `first-launches`, and can also be copied to machines with a GPU but without Rust.

mod cuda;
mod kernels;
mod link;
mod package;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Parser;
use first_launches::{NOT_POSSIBLE, Options};

use package::{Outcome, Package};

/// Launches generated kernels for the first time while a resident kernel runs.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Only build the program, and print its path
    #[arg(long)]
    build: bool,
}

fn main() -> ExitCode {
    let Cli { options, build: only_build } = Cli::parse();
    let nvcc = match link::nvcc() {
        Ok(nvcc) => nvcc,
        Err(why) => {
            eprintln!("error: nvcc is needed to compile the kernels: {why}");
            return ExitCode::from(NOT_POSSIBLE);
        }
    };
    let done = build(&nvcc, options).and_then(|program| {
        if only_build {
            println!("{}", program.display());
            return Ok(ExitCode::SUCCESS);
        }
        let (seed, kernels) = (options.seed.to_string(), options.kernels.to_string());
        let status = Command::new(program).args(["--seed", &seed, "--kernels", &kernels]).status()?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
    });
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn build(nvcc: &std::path::Path, options: Options) -> Outcome<PathBuf> {
    let package = Package::write(options)?;
    link::link(nvcc, &package)?;
    package.build()
}
