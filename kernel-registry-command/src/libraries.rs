//! Builds the simulated driver, the audit's hooks and its auditor as shared libraries, each from a package of
//! one line in the user's target directory.
//!
//! Cargo installs programs but not libraries, so the command builds them: from the checkout that it was built
//! from, if that still has the same files, or else from the sources embedded in the command. A command from a
//! registry has none embedded, and lets cargo download the packages.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::MetadataCommand;

use crate::failure::Failure;
use crate::start::cargo;
use crate::terminal;

/// A crate of this repository that becomes a shared library.
pub struct Shared {
    crate_name: &'static str,
    version: &'static str,
    /// The library's name in messages.
    words: &'static str,
    /// The library's name in the file name `lib<name>.so`.
    library: &'static str,
    linking: &'static [&'static str],
    /// Crates whose speed matters, with their `opt-level`. Not optimizing the others halves the build time.
    fast: &'static [(&'static str, u8)],
}

/// The simulated driver, with the real driver's soname. Its symbols bind locally, and not to another driver
/// in the process. It's never unloaded, because it has a thread.
pub const SIM: Shared = Shared {
    crate_name: "kernel-registry-sim",
    version: "0.1.0",
    words: "the simulated driver",
    library: "cuda",
    linking: &["-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic", "-Wl,-z,nodelete"],
    fast: &[("kernel-registry-cuda", 3), ("kernel-registry-image", 1), ("kernel-registry-ptx", 3)],
};

/// The hooks of the audit, which are never unloaded either, because they have a thread.
pub const AUDIT: Shared = Shared {
    crate_name: "kernel-audit-hooks",
    version: "0.1.0",
    words: "the hooks",
    library: "kernel_registry_hooks",
    linking: &["-Wl,-Bsymbolic", "-Wl,-z,nodelete"],
    fast: &[
        ("kernel-registry-cuda", 3),
        ("kernel-audit-record", 3),
        ("kernel-audit-hooks", 3),
        ("memchr", 3),
        ("sha2", 3),
    ],
};

/// The auditor that runs in the loader. Undefined symbols are a linker error.
pub const AUDITOR: Shared = Shared {
    crate_name: "kernel-audit-rtld",
    version: "0.1.0",
    words: "the audit's auditor library",
    library: "kernel_registry_auditor",
    linking: &["-nostdlib", "-nostartfiles", "-Wl,-z,defs"],
    fast: &[("kernel-audit-rtld", 2)],
};

impl Shared {
    /// Returns whether the library has no dependencies, not even the C library.
    fn is_freestanding(&self) -> bool {
        self.linking.contains(&"-nostdlib")
    }
}

/// The target of this process, which opens the library. The user's packages may have another one.
const TARGET: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };

/// The start of a freestanding library's root module.
const FREESTANDING: &str = include_str!("libraries/freestanding.rs");

/// The sources of the libraries' crates, by path in the checkout. Empty if this crate is from a registry.
static SOURCES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Characters that separate folders in `LD_LIBRARY_PATH`.
const SEPARATORS: [char; 2] = [':', ';'];

/// A built library.
pub struct Built {
    /// The folder of the generated package.
    pub folder: PathBuf,
    /// The library's file.
    pub library: PathBuf,
}

/// Returns the library in this command's folder, if there is one, as on machines without Rust.
pub fn prebuilt(shared: &Shared) -> Option<PathBuf> {
    let file = env::current_exe().ok()?.with_file_name(format!("lib{}.so", shared.library));
    file.is_file().then_some(file)
}

/// Returns the library, which is built if it's missing or its sources have changed.
pub fn built(shared: &Shared, offline: bool) -> Result<Built, Failure> {
    let Shared { crate_name, version, words, library, linking, .. } = *shared;
    let parent = parent(crate_name)?;
    let checkout = checkout(crate_name);
    let unpacked = (checkout.is_none() && !SOURCES.is_empty()).then(|| parent.join(unpacked_name()));
    let sources = checkout.clone().or_else(|| Some(unpacked.as_ref()?.join(crate_name)));
    let manifest = manifest(shared, sources.as_deref());
    let mut hasher = DefaultHasher::new();
    manifest.hash(&mut hasher);
    let folder = parent.join(format!("{version}-{:016x}", hasher.finish()));
    can_be_searched(words, &folder, "CARGO_TARGET_DIR")?;
    let library = folder.join("target").join(TARGET).join(format!("release/lib{library}.so"));
    let is_there = library.is_file();
    // In a checkout, files may have been added.
    if is_there && checkout.is_none() {
        return Ok(Built { folder, library });
    }

    if !is_there {
        let folder = folder.display();
        terminal::say(format_args!("building {words} of {crate_name} {version}, once, in {folder}"));
    }
    if let Some(unpacked) = &unpacked {
        SOURCES.iter().try_for_each(|(name, bytes)| crate::write(&unpacked.join(name), bytes))?;
    }
    crate::write(&folder.join("Cargo.toml"), manifest.as_bytes())?;
    let root = if shared.is_freestanding() { FREESTANDING } else { "" };
    crate::write(
        &folder.join("src/lib.rs"),
        format!("{root}extern crate {} as _;\n", crate_name.replace('-', "_")).as_bytes(),
    )?;
    let lock = sources.map(|sources| sources.with_file_name("Cargo.lock")).filter(|lock| lock.is_file());
    if let (Some(lock), false) = (lock, folder.join("Cargo.lock").exists()) {
        // The checkout's versions of dependencies are tested, and already downloaded.
        let bytes = fs::read(&lock).map_err(Failure::of_io(&lock))?;
        crate::write(&folder.join("Cargo.lock"), &bytes)?;
    }

    let mut command = Command::new(cargo());
    // In this folder, cargo reads the configuration of the user's package, such as registry mirrors. But the
    // user's rustc flags must not apply here.
    command.current_dir(&folder).env("CARGO_ENCODED_RUSTFLAGS", "");
    // Otherwise cudarc takes the version of the nvcc on the path, which it may not know.
    command.env("CUDARC_CUDA_VERSION", "12000");
    command.args(["rustc", "--lib", "--release", "--target", TARGET, "--target-dir", "target"]);
    command.args(is_there.then_some("--quiet")).args(offline.then_some("--offline")).arg("--");
    command.args(linking.iter().map(|flag| format!("-Clink-arg={flag}")));
    let status = command.status().map_err(Failure::of_cargo)?;
    if status.success() {
        Ok(Built { folder, library })
    } else {
        Err(Failure::NotBuilt { crate_name, version })
    }
}

/// Checks that `LD_LIBRARY_PATH` can have this folder, which the user chooses by `variable`.
fn can_be_searched(what: &'static str, folder: &Path, variable: &'static str) -> Result<(), Failure> {
    match separator(folder) {
        Some(separator) => Err(Failure::Separator { what, path: folder.to_owned(), separator, variable }),
        None => Ok(()),
    }
}

/// Returns a character in the folder's path that would end it in `LD_LIBRARY_PATH`, if there is one.
pub fn separator(folder: &Path) -> Option<char> {
    folder.to_string_lossy().chars().find(|c| SEPARATORS.contains(c))
}

/// Returns the name of the folder for the embedded sources, with a hash of their contents.
fn unpacked_name() -> String {
    let mut hasher = DefaultHasher::new();
    SOURCES.hash(&mut hasher);
    format!("sources-{:016x}", hasher.finish())
}

/// Returns the folder of a crate's sources, if this command was built from a checkout that still has the same
/// files. A library from other files wouldn't match this command.
fn checkout(crate_name: &str) -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(crate_name);
    (sources.join("Cargo.toml").is_file() && has_files(sources.parent()?, SOURCES)).then_some(sources)
}

fn has_files(folder: &Path, files: &[(&str, &[u8])]) -> bool {
    files.iter().all(|(name, bytes)| fs::read(folder.join(name)).is_ok_and(|there| there == *bytes))
}

fn manifest(shared: &Shared, sources: Option<&Path>) -> String {
    let Shared { crate_name, version, library, fast, .. } = shared;
    let abort = if shared.is_freestanding() { "\n[profile.release]\npanic = \"abort\"\n" } else { "" };
    let path = sources.map(|path| format!("path = {:?}\n", path.display().to_string())).unwrap_or_default();
    let fast = { fast.iter() }
        .map(|(name, level)| format!("\n[profile.release.package.{name}]\nopt-level = {level}\n"));
    let fast: String = fast.collect();
    format!(
        "# Written by `cargo kernels`.\n\
         [package]\nname = \"{crate_name}-library\"\nedition = \"2024\"\n\n\
         [lib]\nname = \"{library}\"\ncrate-type = [\"cdylib\"]\n\n\
         # Of no workspace around it.\n\
         [workspace]\n\n\
         [dependencies.{crate_name}]\nversion = \"={version}\"\n{path}features = [\"export\"]\n\n\
         [profile.release.package.\"*\"]\nopt-level = 0\n{fast}{abort}"
    )
}

/// Returns the folder `name` in the user's target directory, or else in the user's cache directory.
fn parent(name: &str) -> Result<PathBuf, Failure> {
    if let Ok(metadata) = MetadataCommand::new().cargo_path(cargo()).no_deps().exec() {
        return Ok(metadata.target_directory.as_std_path().join(name));
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let missing = || Failure::Missing { path: "$HOME/.cache".into() };
    cache.map(|cache| cache.join(name)).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkout_has_the_versions_that_are_built() {
        for Shared { crate_name, version, .. } in [SIM, AUDIT, AUDITOR] {
            let manifest =
                Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(crate_name).join("Cargo.toml");
            let text = fs::read_to_string(manifest).unwrap();
            assert!(text.contains(&format!("\nversion = \"{version}\"\n")), "{text}");
        }
    }

    #[test]
    fn a_checkout_that_has_changed_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let files: [(&str, &[u8]); 2] = [("a", b"1"), ("b", b"2")];
        assert!(!has_files(folder.path(), &files));
        fs::write(folder.path().join("a"), "1").unwrap();
        fs::write(folder.path().join("b"), "3").unwrap();
        assert!(!has_files(folder.path(), &files));
        fs::write(folder.path().join("b"), "2").unwrap();
        assert!(has_files(folder.path(), &files));
    }

    /// Installed commands write the same manifest without a path, which tests across crates don't cover.
    #[test]
    fn without_a_checkout_the_manifest_names_no_path() {
        let installed = manifest(&SIM, None);
        let of_checkout = manifest(&SIM, Some(Path::new("/with \"quotes\"")));
        assert!(installed.contains("[dependencies.kernel-registry-sim]\nversion = \"=0.1.0\"\nfeatures"));
        assert_eq!(of_checkout.replace("path = \"/with \\\"quotes\\\"\"\n", ""), installed);
    }
}
