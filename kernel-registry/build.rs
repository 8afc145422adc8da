//! Build script: refuses a compiler that would lose kernels, and records the compiler's version and an id of this copy of the
//! package.

#[path = "build/copy.rs"]
mod copy;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use rustc_version::{Version, VersionMeta, version_meta};

/// The oldest supported compiler. Before this version, `#[used]` did not stop the linker from dropping the records of kernels.
const OLDEST: Version = Version::new(1, 89, 0);

/// Returns whether this target supports kernels that nvcc linked. `linked/shim.rs` is assembly for two processors, and Miri does
/// not run assembly.
fn has_linked_kernels() -> bool {
    let target = |key: &str| env::var(format!("CARGO_CFG_{key}")).unwrap_or_default();
    let known =
        ["x86_64", "aarch64"].contains(&&*target("TARGET_ARCH")) && target("TARGET_POINTER_WIDTH") == "64";
    target("TARGET_OS") == "linux" && known && env::var_os("CARGO_CFG_MIRI").is_none()
}

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build/copy.rs");
    println!("cargo:rustc-check-cfg=cfg(linked_kernels)");
    if has_linked_kernels() {
        println!("cargo:rustc-cfg=linked_kernels");
    }
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
            let variable = |name| env::var(name).unwrap_or_default();
            let copy = copy::copy(Path::new(&variable("OUT_DIR")), &variable("CARGO_PKG_VERSION"));
            println!("cargo:rustc-env=KERNEL_REGISTRY_COPY={copy:016x}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("kernel-registry could not ask the compiler for its version: {error}");
            ExitCode::FAILURE
        }
    }
}
