//! Writes a list of the source files of `kernel-registry-sim`, `kernel-audit-hooks` and `kernel-audit-rtld`, which the command
//! embeds. The command builds them as shared libraries, also where its checkout is gone, because Cargo installs no
//! libraries.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The packages that become shared libraries, and their dependencies in this repository.
const CRATES: [&str; 11] = [
    "kernel-registry-format",
    "kernel-registry-files",
    "kernel-registry-cuda",
    "kernel-registry-image",
    "kernel-registry-ptx",
    "kernel-registry-schedule",
    "kernel-registry-sim",
    "kernel-registry-cudarc",
    "kernel-audit-rtld",
    "kernel-audit-record",
    "kernel-audit-hooks",
];

/// The files and folders that a package is built from.
const PARTS: [&str; 5] = ["Cargo.toml", "README.md", "src", "cuda", "include"];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let mut files = Vec::new();
    // A package from a registry can lie beside the other packages, too, but has no `Cargo.toml` of a workspace above
    // it.
    if root.join("Cargo.toml").is_file() && CRATES.iter().all(|name| root.join(name).is_dir()) {
        files.extend(["Cargo.toml", "Cargo.lock"].map(|name| root.join(name)));
        for path in CRATES.iter().flat_map(|name| PARTS.map(|part| root.join(name).join(part))) {
            add(&path, &mut files)?;
        }
    }
    let mut list = String::from("[\n");
    for file in files.iter().filter(|file| file.is_file()) {
        println!("cargo:rerun-if-changed={}", file.display());
        let name = file.strip_prefix(&root).expect("it was found there").display().to_string();
        writeln!(list, "({name:?}, include_bytes!({:?})),", file.display().to_string()).expect("memory");
    }
    list.push(']');
    println!("cargo:rerun-if-changed=build.rs");
    fs::write(Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("sources.rs"), list)
}

/// Adds a file, or all files of a folder, to `files`. Names each folder to Cargo, so that a new file in it starts a rebuild.
fn add(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    println!("cargo:rerun-if-changed={}", path.display());
    let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    entries.iter().try_for_each(|entry| add(entry, files))
}
