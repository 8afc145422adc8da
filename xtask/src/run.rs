//! Runs other programs, above all cargo.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

/// The target directory.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// Runs a command in the workspace. It must succeed.
pub(crate) fn run(command: &mut Command) -> Outcome {
    command.current_dir(workspace());
    let status = command.status().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}").into()) }
}

/// The cargo that built this program.
pub(crate) fn cargo() -> Command {
    Command::new(env!("CARGO"))
}

/// Installs a program from its crate, unless it is there.
pub(crate) fn installed(program: &str) -> Outcome {
    if Command::new(program).arg("--version").output().is_ok() {
        return Ok(());
    }
    run(cargo().args(["install", "--quiet", "--locked", program]))
}

/// Writes a committed file, or with `check` fails if it differs. `writer` is the command that writes it.
pub(crate) fn keep(path: &Path, contents: &[u8], check: bool, writer: &str) -> Outcome {
    if fs::read(path).is_ok_and(|there| there == contents) {
        return Ok(());
    }
    if check {
        return Err(format!("{} is out of date: write it by `{writer}`", path.display()).into());
    }
    fs::write(path, contents)?;
    println!("wrote {}", path.strip_prefix(workspace()).unwrap_or(path).display());
    Ok(())
}

/// Cargo with unstable compiler flags. `RUSTC_BOOTSTRAP` makes a stable compiler accept them; the results are only
/// run here.
pub(crate) fn unstable_cargo(target_dir: &str, rustflags: &[&str]) -> Command {
    let mut command = cargo();
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", workspace().join("target").join(target_dir))
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags.join("\u{1f}"));
    command
}

/// The target triple of this machine. If it is given, flags do not apply to procedural macros and build scripts.
pub(crate) const HOST: &str = "x86_64-unknown-linux-gnu";
