//! Registers nvcc-linked kernels with kernel-registry, by intercepting their registration.

mod archive;
mod passing;

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use self::archive::REGISTER;
use crate::environment::Environment;
use crate::{Error, Result};

/// Registers the kernels that nvcc links into this package's programs with kernel-registry: they are listed,
/// found and warmed like declared kernels, and still launched with `<<<>>>`.
///
/// ```no_run
/// // build.rs
/// fn main() {
///     // Compile and link the CUDA sources as before: with cc, cmake, or by hand.
///     kernel_registry_build::linked();
/// }
/// ```
///
/// It makes the linker route nvcc's registrations through kernel-registry (`--wrap`), for the package's
/// binaries, tests, examples and C libraries. Call it in the build script of the package that is linked: it
/// covers the kernels of all dependencies. A library registers its own kernels with [`linked_archive`]. If a
/// program uses both, each kernel is still registered once. Called from a library's build script, `linked`
/// doesn't reach the programs that depend on the library. It prints a warning if the library's package has no
/// program; if it has one, `linked` can't know which one is being built.
///
/// The program has to use kernel-registry; the feature `linked` adds the C++ names of kernels. Targets that
/// don't use kernel-registry, such as the tests of the package's library, link and run as before.
///
/// # Limits
///
/// Only Linux on x86-64 and arm64; elsewhere it prints a warning. Kernels of closed shared libraries (cuBLAS,
/// PyTorch) were linked elsewhere, so the linker does not see them.
pub fn linked() {
    let target = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    let (os, arch) = (target("OS"), target("ARCH"));
    if os != "linux" || !["x86_64", "aarch64"].contains(&&*arch) {
        println!(
            "cargo:warning=the kernels that nvcc links are neither listed nor warmed on {os} for {arch}: \
             kernel-registry sees them only on Linux, on x86-64 and arm64"
        );
        return;
    }
    if !has_programs() {
        println!(
            "cargo:warning=`kernel_registry_build::linked()` only reaches programs of its own package, and this one has none: call \
             `linked_archive` here, for the kernels of this library, or `linked` in the build script of the program"
        );
    }
    // `-u` makes the linker look for the function from the start, because it may read kernel-registry before
    // any code of nvcc's refers to the function.
    for name in REGISTER {
        println!("cargo:rustc-link-arg=-Wl,--wrap={name},-u,__wrap_{name}");
    }
    // Comes after kernel-registry, so that the linker uses this archive only if kernel-registry is missing.
    match passing::archive(&arch, &REGISTER) {
        Ok(archive) => println!("cargo:rustc-link-arg={}", archive.display()),
        Err(why) => println!(
            "cargo:warning=targets of this package that do not use kernel-registry will not link, if they have kernels that nvcc \
             linked: {why}"
        ),
    }
}

/// Returns whether the package has binaries or C libraries. Cargo also passes these linker arguments to tests
/// and examples, but a package with nothing else is a library, whose kernels are linked into other packages'
/// programs.
fn has_programs() -> bool {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
    let named = ["[[bin]]", "cdylib"].iter().any(|word| manifest.contains(word));
    named || package.join("src/main.rs").exists() || package.join("src/bin").exists()
}

/// Registers the kernels of a static library with kernel-registry, in every program that links it. Meant for
/// crates with their own kernels: the program's build script doesn't have to know.
///
/// ```no_run
/// // build.rs of a library, after it has compiled `libprover.a` into `OUT_DIR`
/// fn main() {
///     kernel_registry_build::linked_archive("libprover.a");
///     println!("cargo:rustc-link-lib=static=prover");
/// }
/// ```
///
/// A relative path is looked up in `OUT_DIR` first, where the file is rewritten in place, then in the
/// package. Files in other folders are never changed, even if a link in `OUT_DIR` leads there: the rewritten
/// file goes to `OUT_DIR`, and cargo is told to search there first. In each object file, kernel-registry's
/// functions replace nvcc's registration functions by name. The names have the same lengths.
///
/// The library has to use kernel-registry; `use kernel_registry as _;` is enough.
///
/// # Panics
///
/// Ends the build script with a message if the file doesn't exist or can't be rewritten: see [`Error`].
pub fn linked_archive(path: impl AsRef<Path>) {
    if let Err(error) = try_linked_archive(path.as_ref()) {
        eprintln!("error: {error}");
        process::exit(1);
    }
}

fn try_linked_archive(path: &Path) -> Result<()> {
    let environment = Environment::default();
    let out = environment.folder("OUT_DIR")?;
    let made = out.join(path);
    if is_in(&made, &out) {
        return rewrite(&made, &made);
    }
    let from = if made.exists() { made } else { environment.folder("CARGO_MANIFEST_DIR")?.join(path) };
    let folder = out.join("kernel-registry-linked");
    let name = from.file_name().map(PathBuf::from).unwrap_or_default();
    println!("cargo:rerun-if-changed={}", from.display());
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    rewrite(&from, &folder.join(name))?;
    println!("cargo:rustc-link-search=native={}", folder.display());
    Ok(())
}

/// Returns whether the file exists in this folder or below. Resolves links and `..`, which may lead to
/// another project's folder.
fn is_in(file: &Path, folder: &Path) -> bool {
    let parent = file.parent().map(fs::canonicalize);
    match (parent, fs::canonicalize(folder)) {
        (Some(Ok(parent)), Ok(folder)) => file.exists() && parent.starts_with(folder),
        _ => false,
    }
}

fn rewrite(from: &Path, to: &Path) -> Result<()> {
    let mut bytes = fs::read(from).map_err(Error::file("read", from))?;
    let renamed = archive::rename(&mut bytes)
        .map_err(|why| Error::Archive { archive: from.to_owned(), why: why.to_string() })?;
    // A rewritten file would make cargo link again.
    if from == to && renamed == 0 {
        return Ok(());
    }
    write(to, &bytes)
}

/// Replaces the file instead of its bytes, because it may be a link to another project's file.
fn write(to: &Path, bytes: &[u8]) -> Result<()> {
    let part = to.with_extension("part");
    fs::write(&part, bytes).map_err(Error::file("write", &part))?;
    fs::rename(&part, to).map_err(Error::file("write", to))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_folder_behind_a_link_belongs_to_another_project() {
        let folder = tempfile::tempdir().unwrap();
        let [out, theirs] = ["out", "theirs"].map(|name| folder.path().join(name));
        for file in [out.join("ours.a"), out.join("lib/ours.a"), theirs.join("theirs.a")] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, b"").unwrap();
        }
        std::os::unix::fs::symlink(&theirs, out.join("link")).unwrap();
        std::os::unix::fs::symlink(theirs.join("theirs.a"), out.join("linked.a")).unwrap();
        for ours in ["ours.a", "lib/ours.a", "lib/../ours.a", "linked.a"] {
            assert!(is_in(&out.join(ours), &out), "{ours}");
        }
        for other in
            ["link/theirs.a", "../theirs/theirs.a", "lib/../../theirs/theirs.a", "none.a", "none/x.a"]
        {
            assert!(!is_in(&out.join(other), &out), "{other}");
        }
    }

    #[test]
    fn a_link_is_replaced_and_its_target_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let [theirs, hard, symbolic] =
            ["theirs.a", "hard.a", "symbolic.a"].map(|name| folder.path().join(name));
        let before = b"!<arch>\n";
        fs::write(&theirs, before).unwrap();
        fs::hard_link(&theirs, &hard).unwrap();
        std::os::unix::fs::symlink(&theirs, &symbolic).unwrap();
        for ours in [hard, symbolic] {
            write(&ours, b"!<arch>\nours").unwrap();
            assert_eq!(fs::read(&theirs).unwrap(), before);
            assert_eq!(fs::read(&ours).unwrap(), b"!<arch>\nours");
            assert!(!ours.is_symlink());
        }
    }
}
