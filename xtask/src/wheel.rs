//! `cargo xtask wheel`: the audit as a wheel for pip, in target/wheel, and as a tarball beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, cargo, entries, files_with, remove, run, target, workspace};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Install the wheel in an empty virtual environment, and use it there
    #[arg(long)]
    test: bool,

    /// Another target of rustc, aarch64-unknown-linux-gnu for example: run this there, because the command is run to pack the libraries. Untested
    #[arg(long, value_name = "TRIPLE", default_value = TARGET)]
    target: String,
}

impl Options {
    /// The wheel for this machine, which is tested.
    pub(crate) fn tested() -> Self {
        Options { test: true, target: TARGET.to_owned() }
    }
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn wheel(options: &Options) -> Outcome {
    let out = target().join("wheel");
    remove(&out)?;
    let folder = out.join("kernel-audit");
    fs::create_dir_all(&folder)?;
    run(cargo().args([
        "build",
        "--release",
        "--locked",
        "-p",
        "cargo-kernels",
        "--target",
        &options.target,
    ]))?;
    let command = target().join(&options.target).join("release/cargo-kernels");
    run(Command::new(command).args(["kernels", "audit", "--pack"]).arg(&folder).arg("--sim"))?;
    for file in files(&folder)? {
        run(Command::new("strip").arg("--strip-unneeded").arg(file))?;
    }
    let python = workspace().join("python");
    let architecture = options.target.split('-').next().unwrap_or_default();
    let mut make = Command::new("python3");
    make.arg(python.join("make_wheel.py")).args([env!("CARGO_PKG_VERSION")]).arg(&folder);
    run(make.arg(architecture).arg(&out))?;
    let tarball = format!("kernel-audit-{}-{}.tar.gz", env!("CARGO_PKG_VERSION"), options.target);
    run(Command::new("tar").arg("-C").arg(&out).arg("-czf").arg(out.join(tarball)).arg("kernel-audit"))?;
    if options.test {
        for wheel in files_with("whl", &out)? {
            run(Command::new("python3").arg(python.join("test_wheel.py")).arg(wheel))?;
        }
    }
    Ok(())
}

/// The files in a folder and in the folders there.
fn files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() { all.extend(files(&path)?) } else { all.push(path) }
    }
    Ok(all)
}
