//! Development chores: `cargo xtask help`.

mod bundle;
mod corpus;
mod device_launch;
mod driver_tests;
mod fuzz;
mod memory;
mod prebuilt;
mod run;
mod toolkit;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Make a folder of programs for a machine with a GPU and without Rust, and of a script that runs them
    Bundle(bundle::Options),
    /// Fuzz the decoder of records or the reader of images, seeded with real ones
    Fuzz(fuzz::Options),
    /// Run what reads and writes records under Miri, which has to be installed
    Miri,
    /// Make the prebuilt images that are committed, or compare them with the sources
    Prebuilt(prebuilt::Options),
    /// Run the same, a whole program's registry, the simulated driver and the stress test under the sanitizers for addresses and leaks
    Sanitize,
    /// Install the CUDA compilers that tests and prebuilt images need, from Python wheels into target/toolkit
    Toolkit(toolkit::Options),
}

fn main() -> ExitCode {
    let done = match Chore::parse() {
        Chore::Bundle(options) => bundle::bundle(&options),
        Chore::Fuzz(options) => fuzz::fuzz(&options),
        Chore::Miri => memory::miri(),
        Chore::Prebuilt(options) => prebuilt::prebuilt(&options),
        Chore::Sanitize => memory::sanitize(),
        Chore::Toolkit(options) => toolkit::toolkit(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
