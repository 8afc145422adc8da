//! Development chores: `cargo xtask help`.

mod fuzz;
mod memory;
mod run;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Fuzz the decoder of records or the reader of images, seeded with real ones
    Fuzz(fuzz::Options),
    /// Run what reads and writes records under Miri, which has to be installed
    Miri,
    /// Run the same, and a whole program's registry, under the address sanitizer
    Sanitize,
}

fn main() -> ExitCode {
    let done = match Chore::parse() {
        Chore::Fuzz(options) => fuzz::fuzz(&options),
        Chore::Miri => memory::miri(),
        Chore::Sanitize => memory::sanitize(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
