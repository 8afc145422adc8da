//! `cargo xtask wheel`: packs the audit as a wheel for pip, and as a tarball, in target/wheel.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::notices::{DEPENDENCIES, notices};
use crate::run::{Outcome, cargo, entries, files_with, published, remove, run, target, workspace};
use crate::toolkit::zig;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Install the wheel in an empty virtual environment, and use it there
    #[arg(long)]
    test: bool,

    /// Install the wheel for the `python3` on the path, in place of an earlier one
    #[arg(long)]
    install: bool,

    /// Another target of rustc, such as aarch64-unknown-linux-gnu. `kernel-audit` packs itself, so xtask must run where the target's
    /// programs start; `cargo xtask arm64 --only wheel` does so
    #[arg(long, value_name = "TRIPLE", default_value = TARGET)]
    target: String,
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The oldest glibc that Rust's standard library works with.
const GLIBC: &str = "2.17";

pub(crate) fn wheel(options: &Options) -> Outcome {
    let out = target().join("wheel");
    remove(&out)?;
    let folder = out.join("kernel-audit");
    fs::create_dir_all(&folder)?;
    let architecture = options.target.split('-').next().unwrap_or_default();
    // Cargo doesn't notice a changed linker, so this build has a separate target folder.
    let built = std::path::absolute(target())?.join("wheel-build");
    let variables = [
        ("CARGO_TARGET_DIR".to_owned(), built.clone()),
        (linker_variable(&options.target), linker(architecture, &built)?),
    ];
    let build = [
        "build",
        "--release",
        "--locked",
        "-p",
        "kernel-audit",
        "--features",
        "command",
        "--target",
        &options.target,
    ];
    run(cargo().envs(variables.clone()).args(build))?;
    let mut pack = Command::new(built.join(&options.target).join("release/kernel-audit"));
    run(pack.envs(variables).args(["pack", "--sim"]).arg(&folder))?;
    for file in files(&folder)? {
        run(Command::new("strip").arg("--strip-unneeded").arg(file))?;
    }
    let packages = published()?;
    let package = packages.iter().find(|package| package.name == "kernel-audit");
    let licences = out.join(DEPENDENCIES);
    fs::write(&licences, notices(package.ok_or("the wheel is of `kernel-audit`")?, &options.target)?)?;
    let python = workspace().join("kernel-audit/python");
    let mut make = Command::new("python3");
    make.arg(python.join("make_wheel.py")).args([env!("CARGO_PKG_VERSION")]).arg(&folder);
    run(make.arg(architecture).arg(&out).arg(&licences))?;
    let tarball = format!("kernel-audit-{}-{}.tar.gz", env!("CARGO_PKG_VERSION"), options.target);
    run(Command::new("tar").arg("-C").arg(&out).arg("-czf").arg(out.join(tarball)).arg("kernel-audit"))?;
    for wheel in files_with("whl", &out)? {
        if options.test {
            run(Command::new("python3").arg(python.join("test_wheel.py")).arg(&wheel))?;
        }
        if options.install {
            // Without the option, pip keeps an installed wheel of the same version.
            let install = ["-m", "pip", "install", "--force-reinstall", "--no-deps"];
            run(Command::new("python3").args(install).arg(&wheel))?;
        }
    }
    Ok(())
}

/// Returns the variable with cargo's linker for a target.
fn linker_variable(target: &str) -> String {
    format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"))
}

/// Makes a linker for rustc: a script that calls zig, which knows the symbols of every glibc. The unwinder is
/// this machine's `libgcc_s`, which may be newer than the target's.
fn linker(architecture: &str, folder: &Path) -> Outcome<PathBuf> {
    let unwinder = Command::new("cc").arg("-print-file-name=libgcc_s.so.1").output()?;
    let (zig, unwinder) = (zig()?, String::from_utf8(unwinder.stdout)?);
    let script = format!(
        r#"#!/bin/sh
for argument; do
    shift
    case $argument in
    -lgcc_s) set -- "$@" "{}" ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec "{}" cc -target {architecture}-linux-gnu.{GLIBC} -Wl,--allow-shlib-undefined -Wl,-z,defs "$@"
"#,
        unwinder.trim(),
        zig.display()
    );
    fs::create_dir_all(folder)?;
    let path = folder.join("linker");
    fs::write(&path, script)?;
    fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Returns the files in a folder and its subfolders.
pub(crate) fn files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() { all.extend(files(&path)?) } else { all.push(path) }
    }
    Ok(all)
}
