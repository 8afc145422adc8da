//! Build script: refuses a compiler that would lose kernels, and records its version and an id of this copy.

use std::env;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::ExitCode;

use rustc_version::{Version, VersionMeta, version_meta};

/// Before this version, `#[used]` did not stop the linker from dropping the records of kernels.
const OLDEST: Version = Version::new(1, 89, 0);

/// A number that differs between copies of this package in one program. With cargo it is the number at the end of the output
/// folder's name: a hash of the package's version and source, which does not depend on the machine. With another build
/// system it is a hash of the version.
fn copy() -> u64 {
    let out = env::var("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).parent().and_then(Path::file_name).and_then(OsStr::to_str);
    let hash = folder.and_then(|folder| folder.rsplit_once('-')).map(|(_, hash)| hash);
    let hash = hash.filter(|hash| hash.len() == 16).and_then(|hash| u64::from_str_radix(hash, 16).ok());
    hash.unwrap_or_else(|| {
        let mut hasher = DefaultHasher::new();
        env::var("CARGO_PKG_VERSION").unwrap_or_default().hash(&mut hasher);
        hasher.finish()
    })
}

/// Whether the linker can hand over kernels that nvcc linked: `linked/shim.rs` is assembly, which Miri does not run.
fn has_linked_kernels() -> bool {
    let target = |key: &str| env::var(format!("CARGO_CFG_{key}")).unwrap_or_default();
    let known =
        ["x86_64", "aarch64"].contains(&&*target("TARGET_ARCH")) && target("TARGET_POINTER_WIDTH") == "64";
    target("TARGET_OS") == "linux" && known && env::var_os("CARGO_CFG_MIRI").is_none()
}

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
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
            println!("cargo:rustc-env=KERNEL_REGISTRY_COPY={:016x}", copy());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("kernel-registry could not ask the compiler for its version: {error}");
            ExitCode::FAILURE
        }
    }
}
