//! Refuses a compiler that would lose kernels, and records the one that is used.

use std::process::ExitCode;

use rustc_version::{Version, VersionMeta, version_meta};

/// Before this one, `#[used]` did not stop the linker from dropping the records of kernels.
const OLDEST: Version = Version::new(1, 89, 0);

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    match version_meta() {
        Ok(VersionMeta { semver, .. }) => {
            if Version::new(semver.major, semver.minor, semver.patch) < OLDEST {
                eprintln!(
                    "kernel-registry needs Rust {OLDEST} or newer, and this is Rust {semver}: \
                     older compilers let the linker drop the records of kernels; \
                     `rustup update` brings a newer one"
                );
                return ExitCode::FAILURE;
            }
            println!("cargo:rustc-env=KERNEL_REGISTRY_RUSTC=rustc {semver}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("kernel-registry could not ask the compiler for its version: {error}");
            ExitCode::FAILURE
        }
    }
}
