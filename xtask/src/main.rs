//! Development chores, run with `cargo xtask NAME`; `cargo xtask help` lists them.

mod api;
mod archive;
mod arm64;
mod bundle;
mod candle;
mod check;
mod corpus;
mod cudarc;
mod debian;
mod device_launch;
mod docs_rs;
mod driver_tests;
mod fuzz;
mod imports;
mod memory;
mod notices;
mod once;
mod package;
mod prebuilt;
mod prose;
mod pythons;
mod release;
mod run;
mod structure;
mod stubs;
mod toolkit;
mod wheel;
mod windows;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Build a program whose modules are adopted, with several profiles and linkers, and run it on the
    /// simulated driver
    Adopt,
    /// Write the public APIs that have a text in docs/api, or compare them with the committed texts
    Api(api::Options),
    /// Make the wheel, and a tarball for each command that `cargo binstall` installs
    Archives(archive::Options),
    /// Build for arm64 Linux, and run the tests there by qemu
    Arm64(arm64::Options),
    /// Pack the programs and tests that need a GPU, with a script, for a machine with a GPU and without Rust
    Bundle(bundle::Options),
    /// Check kernel-registry-candle, and a program with kernel-registry and candle, which decides how cudarc
    /// is built
    Candle(candle::Options),
    /// Check the format, lint, look for files that import each other, and run the tests of the crates that
    /// changed: what to run before a commit
    Check(check::Options),
    /// Build examples/cuda-core with NVIDIA's cuda-core, and run it on the simulated driver
    CudaCore,
    /// Build a program with each of cudarc's ways to the driver and each of its CUDA versions, and run it
    Cudarc,
    /// Fuzz the record decoder or the image reader, seeded with real files
    Fuzz(fuzz::Options),
    /// Run the record crates under Miri, which must be installed
    Miri,
    /// Pack the published crates, and build a program with nothing but the packages
    Package,
    /// Make the committed prebuilt images, or compare them with their sources
    Prebuilt(prebuilt::Options),
    /// Run the tests of Python programs behind the audit with newer versions of CPython, from Debian's
    /// packages
    Pythons,
    /// Check everything, with nothing left out: what to run before a release
    ReleaseCheck(release::Options),
    /// Run the record crates, a program's registry, the simulated driver and the stress test under the
    /// address and leak sanitizers
    Sanitize,
    /// Install the CUDA compilers for tests and prebuilt images, from Python wheels into target/toolkit
    Toolkit(toolkit::Options),
    /// Pack the audit as a wheel for pip, and as a tarball
    Wheel(wheel::Options),
    /// Lint what compiles for Windows, and run it by wine
    Windows(windows::Options),
}

fn main() -> ExitCode {
    let done = match Chore::parse() {
        Chore::Adopt => cudarc::adopt(),
        Chore::Api(options) => api::api(&options),
        Chore::Archives(options) => archive::archives(&options.target),
        Chore::Arm64(options) => arm64::arm64(&options),
        Chore::Bundle(options) => bundle::bundle(&options),
        Chore::Candle(options) => candle::candle(&options),
        Chore::Check(options) => check::check(&options),
        Chore::CudaCore => cudarc::cuda_core(),
        Chore::Cudarc => cudarc::cudarc(),
        Chore::Fuzz(options) => fuzz::fuzz(&options),
        Chore::Miri => memory::miri(),
        Chore::Package => package::package(),
        Chore::Prebuilt(options) => prebuilt::prebuilt(&options),
        Chore::Pythons => pythons::pythons(),
        Chore::ReleaseCheck(options) => release::release_check(&options),
        Chore::Sanitize => memory::sanitize(),
        Chore::Wheel(options) => wheel::wheel(&options),
        Chore::Windows(options) => windows::windows(&options),
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
