//! Lists the sources of the libraries that the command builds, so that it has them in itself where its checkout is gone. Cargo installs no
//! libraries beside programs.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What `sim` and `audit` build, with the crates of this repository that it depends on.
const CRATES: [&str; 8] = [
    "kernel-registry-format",
    "kernel-registry-cuda",
    "kernel-registry-image",
    "kernel-registry-ptx",
    "kernel-registry-sim",
    "kernel-registry-cudarc",
    "kernel-registry-command",
    "kernel-audit",
];

/// What a package is built from.
const PARTS: [&str; 5] = ["Cargo.toml", "README.md", "src", "cuda", "include"];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let mut files = Vec::new();
    // A package of a registry has no workspace around it: the other packages are there, too.
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

/// Adds a file, or all in a folder. Cargo is told of folders, because files may come.
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
