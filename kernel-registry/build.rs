//! Build script: refuses a compiler that would lose kernels, and records its version and an id of this copy.

use std::env;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::{Command, ExitCode};

/// Before this version, `#[used]` did not stop the linker from dropping the records of kernels.
const OLDEST: (u32, u32) = (1, 89);

/// The compiler's version, like `1.95.0-nightly`, or why it is not known.
fn compiler() -> Result<String, String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let release = text.lines().find_map(|line| line.strip_prefix("release: "));
    release
        .map(str::to_owned)
        .ok_or_else(|| format!("`rustc -vV` has no line `release:` ({})", output.status))
}

/// 1 and 95 of `1.95.0-nightly`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

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

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    match compiler() {
        Ok(version) => {
            if numbers(&version).is_some_and(|numbers| numbers < OLDEST) {
                let (major, minor) = OLDEST;
                eprintln!(
                    "kernel-registry needs Rust {major}.{minor}.0 or newer, and this is Rust {version}: \
                     older compilers let the linker drop the records of kernels; \
                     `rustup update` brings a newer one"
                );
                return ExitCode::FAILURE;
            }
            println!("cargo:rustc-env=KERNEL_REGISTRY_RUSTC=rustc {version}");
            println!("cargo:rustc-env=KERNEL_REGISTRY_COPY={:016x}", copy());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("kernel-registry could not ask the compiler for its version: {error}");
            ExitCode::FAILURE
        }
    }
}
