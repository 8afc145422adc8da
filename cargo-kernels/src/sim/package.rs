//! Builds the simulated driver as a shared library, from a package of one line in the user's target directory.
//!
//! Cargo installs programs but no libraries, so the driver cannot be installed with this command.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::MetadataCommand;

use super::folder;
use crate::artifacts::cargo;
use crate::failure::Failure;

/// The version of kernel-registry-sim that this command builds.
const VERSION: &str = "0.1.0";

/// The target of this process, because this process opens the library. The user's packages may have another target.
const TARGET: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };

/// Linker flags: the real driver's name; functions bind to each other and not to another driver's in the process;
/// and the library is never unloaded, because it has a thread.
const LINKING: [&str; 3] = ["-soname,libcuda.so.1", "-Bsymbolic", "-z,nodelete"];

/// Characters that end a folder's name in `LD_LIBRARY_PATH`.
const SEPARATORS: [char; 2] = [':', ';'];

/// The built library.
pub(super) struct Built {
    /// The folder of this version.
    pub(super) folder: PathBuf,
    pub(super) library: PathBuf,
}

/// Returns the library; builds it if it is missing or its sources have changed.
pub(super) fn built(offline: bool) -> Result<Built, Failure> {
    let sources = sources();
    let manifest = manifest(sources.as_deref());
    let mut hasher = DefaultHasher::new();
    manifest.hash(&mut hasher);
    let folder = parent()?.join(format!("{VERSION}-{:016x}", hasher.finish()));
    if let Some(separator) = folder.to_string_lossy().chars().find(|c| SEPARATORS.contains(c)) {
        return Err(Failure::Separator { path: folder, separator });
    }
    let library = folder.join("target").join(TARGET).join("release/libcuda.so");
    let is_there = library.is_file();
    // Packages of a registry never change.
    if is_there && sources.is_none() {
        return Ok(Built { folder, library });
    }

    if !is_there {
        eprintln!(
            "building the simulated driver of kernel-registry-sim {VERSION}, once, in {}",
            folder.display()
        );
    }
    folder::write(&folder.join("Cargo.toml"), manifest.as_bytes())?;
    folder::write(&folder.join("src/lib.rs"), b"extern crate kernel_registry_sim as _;\n")?;
    let lock = sources.map(|sources| sources.with_file_name("Cargo.lock")).filter(|lock| lock.is_file());
    if let (Some(lock), false) = (lock, folder.join("Cargo.lock").exists()) {
        // The checkout's lock file has versions that were tested and are already downloaded.
        let bytes = fs::read(&lock).map_err(|error| Failure::of_io(lock, error))?;
        folder::write(&folder.join("Cargo.lock"), &bytes)?;
    }

    let mut command = Command::new(cargo());
    // This folder is below the user's package, so cargo reads its configuration, such as registry mirrors. But the
    // user's rustc flags, from variables or configuration, must not apply here.
    command.current_dir(&folder).env("CARGO_ENCODED_RUSTFLAGS", "");
    command.args(["rustc", "--lib", "--release", "--target", TARGET, "--target-dir", "target"]);
    command.args(is_there.then_some("--quiet")).args(offline.then_some("--offline")).arg("--");
    command.args(LINKING.map(|flag| format!("-Clink-arg=-Wl,{flag}")));
    let status = command.status().map_err(|error| Failure::Cargo { error: error.to_string() })?;
    if status.success() {
        Ok(Built { folder, library })
    } else {
        Err(Failure::DriverUnavailable { version: VERSION })
    }
}

/// The sources of kernel-registry-sim, if this command was built from a checkout that still exists.
fn sources() -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("kernel-registry-sim");
    sources.join("Cargo.toml").is_file().then_some(sources)
}

fn manifest(sources: Option<&Path>) -> String {
    let path = sources.map(|path| format!("path = {:?}\n", path.display().to_string())).unwrap_or_default();
    format!(
        "# Written by `cargo kernels sim`.\n\
         [package]\nname = \"simulated-driver\"\nedition = \"2024\"\n\n\
         [lib]\nname = \"cuda\"\ncrate-type = [\"cdylib\"]\n\n\
         # Of no workspace around it.\n\
         [workspace]\n\n\
         [dependencies.kernel-registry-sim]\nversion = \"={VERSION}\"\n{path}features = [\"export\"]\n\n\
         # Kernels are executed there. The rest reads images, and is built sooner this way.\n\
         [profile.release.package.\"*\"]\nopt-level = 1\n\n\
         [profile.release.package.kernel-registry-ptx]\nopt-level = 3\n\n\
         [profile.release.package.kernel-registry-sim]\nopt-level = 3\n"
    )
}

/// The target directory of the user's package, or else the user's cache directory.
fn parent() -> Result<PathBuf, Failure> {
    const NAME: &str = "kernel-registry-sim";
    if let Ok(metadata) = MetadataCommand::new().cargo_path(cargo()).no_deps().exec() {
        return Ok(metadata.target_directory.as_std_path().join(NAME));
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let denied = || Failure::of_io("$HOME/.cache".into(), ErrorKind::NotFound.into());
    cache.map(|cache| cache.join(NAME)).ok_or_else(denied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkout_has_the_version_that_is_built() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("kernel-registry-sim/Cargo.toml");
        let text = fs::read_to_string(manifest).unwrap();
        assert!(text.contains(&format!("\nversion = \"{VERSION}\"\n")), "{text}");
    }

    /// Tests across crates build from the checkout; an installed command writes the same manifest without the
    /// path.
    #[test]
    fn without_a_checkout_the_registry_has_it() {
        let installed = manifest(None);
        let of_checkout = manifest(Some(Path::new("/with \"quotes\"")));
        assert!(
            installed
                .contains(&format!("[dependencies.kernel-registry-sim]\nversion = \"={VERSION}\"\nfeatures"))
        );
        assert_eq!(of_checkout.replace("path = \"/with \\\"quotes\\\"\"\n", ""), installed);
    }
}
