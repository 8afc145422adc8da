//! Runs other programs, mainly cargo.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cargo_metadata::{MetadataCommand, Package};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Returns the folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

/// Returns the target directory.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// Runs a command in the workspace, which must succeed.
pub(crate) fn run(command: &mut Command) -> Outcome {
    command.current_dir(workspace());
    let status = command.status().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}").into()) }
}

/// Returns the cargo that built this program.
pub(crate) fn cargo() -> Command {
    Command::new(env!("CARGO"))
}

/// Returns standard output and standard error as text.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &output.stderr].concat()).into_owned()
}

pub(crate) fn output(command: &mut Command) -> Outcome<Output> {
    command.output().map_err(|error| format!("{command:?}: {error}").into())
}

pub(crate) fn succeeds(command: &mut Command) -> Outcome {
    succeeds_and(command, "")
}

/// Runs a command that must succeed and print these words.
pub(crate) fn succeeds_and(command: &mut Command, words: &str) -> Outcome {
    says_and(command, words, true)
}

/// Runs a command that must fail with one error, which contains these words.
pub(crate) fn says(command: &mut Command, words: &str) -> Outcome {
    says_and(command, words, false)
}

fn says_and(command: &mut Command, words: &str, success: bool) -> Outcome {
    let output = output(command)?;
    let text = text(&output);
    let errors = text.lines().filter(|line| line.starts_with("error[")).count();
    if output.status.success() != success || !text.contains(words) || errors > 1 {
        let expected = if success { "success" } else { "one error" };
        return Err(format!("{command:?}: expected {expected} with `{words}`, and it said:\n{text}").into());
    }
    Ok(())
}

/// Installs a program from its crate, unless it's there.
pub(crate) fn installed(program: &str) -> Outcome {
    if Command::new(program).arg("--version").output().is_ok() {
        return Ok(());
    }
    run(cargo().args(["install", "--quiet", "--locked", program]))
}

/// Returns the files and folders in a folder, sorted.
pub(crate) fn entries(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Returns the files of a folder that have this extension, sorted.
pub(crate) fn files_with(extension: &str, folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut paths = entries(folder)?;
    paths.retain(|path| path.extension().is_some_and(|of_path| of_path == extension));
    Ok(paths)
}

/// Returns the name of a program or a test from its path.
pub(crate) fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().display().to_string()
}

/// Removes a folder, if it exists.
pub(crate) fn remove(folder: &Path) -> Outcome {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove `{}`: {error}", folder.display()).into())
        }
        _ => Ok(()),
    }
}

/// Makes a symbolic link, replacing any that exists.
pub(crate) fn link(to: &Path, at: &Path) -> Outcome {
    if at.is_symlink() {
        fs::remove_file(at)?;
    }
    Ok(std::os::unix::fs::symlink(to, at)?)
}

/// Returns the packages of the workspace that are published.
pub(crate) fn published() -> Outcome<Vec<Package>> {
    let metadata = MetadataCommand::new().no_deps().current_dir(workspace()).exec()?;
    let packages = metadata.workspace_packages().into_iter().cloned();
    Ok(packages.filter(|package| package.publish.as_ref().is_none_or(|to| !to.is_empty())).collect())
}

/// The command that writes committed images.
pub(crate) const IMAGE_WRITER: &str = "cargo xtask prebuilt";

/// Writes a committed file, or with `check` fails if it's out of date. `writer` is the command that writes
/// it.
pub(crate) fn write_or_compare(path: &Path, contents: &[u8], check: bool, writer: &str) -> Outcome {
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

/// Returns cargo with unstable compiler flags, which `RUSTC_BOOTSTRAP` makes a stable compiler accept. The
/// built programs only run on this machine.
pub(crate) fn unstable_cargo(target_dir: &str, rustflags: &[&str]) -> Command {
    let mut command = cargo();
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", workspace().join("target").join(target_dir))
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags.join("\u{1f}"));
    command
}

/// The target triple of this machine. Given a target, cargo doesn't apply compiler flags to procedural macros
/// and build scripts.
pub(crate) const HOST: &str = "x86_64-unknown-linux-gnu";
