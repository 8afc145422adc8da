//! `cargo xtask archives`: makes the files of a release other than crates, in target/wheel: the wheel, and a
//! tarball for each command that `cargo binstall` installs. A tarball has the name that its package's
//! manifest gives to `cargo binstall`.

use std::fs;
use std::path::Path;
use std::process::Command;

use cargo_metadata::Package;

use crate::notices::{DEPENDENCIES, notices};
use crate::run::{HOST, Outcome, cargo, published, remove, run, succeeds, succeeds_and, target, workspace};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Another target of rustc: run xtask on that machine
    #[arg(long, value_name = "TRIPLE", default_value = HOST)]
    pub(crate) target: String,
}

/// The command that isn't in the wheel. For the other one, `kernel-audit`, `cargo xtask wheel` leaves a
/// folder.
const COMMAND: &str = "cargo-kernels";

pub(crate) fn archives(triple: &str) -> Outcome {
    run(Command::new(std::env::current_exe()?).args(["wheel", "--target", triple]))?;
    let out = target().join("wheel");
    build_command(&out.join(COMMAND), triple)?;
    for package in published()? {
        let Some(download) = Download::find(&package, triple) else { continue };
        let folder = out.join(package.name.as_str());
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            fs::copy(workspace().join(licence), folder.join(licence))?;
        }
        fs::write(folder.join(DEPENDENCIES), notices(&package, triple)?)?;
        let tarball = out.join(download.file);
        run(Command::new("tar").arg("-C").arg(&out).arg("-czf").arg(&tarball).arg(package.name.as_str()))?;
        try_alone(&tarball, &download.program, &package)?;
        println!("{}", tarball.display());
    }
    Ok(())
}

/// Unpacks a tarball into an empty folder, and runs its program there without variables, as on a machine
/// without Rust.
fn try_alone(tarball: &Path, program: &str, package: &Package) -> Outcome {
    let folder = std::path::absolute(target())?.join("wheel/unpacked");
    remove(&folder)?;
    fs::create_dir_all(&folder)?;
    run(Command::new("tar").arg("-C").arg(&folder).arg("-xzf").arg(std::path::absolute(tarball)?))?;
    let alone = || {
        let mut command = Command::new(folder.join(program));
        command.env_clear().current_dir(&folder);
        command
    };
    succeeds_and(alone().arg("--version"), &package.version.to_string())?;
    if package.name != COMMAND {
        succeeds(alone().arg("demo"))?;
    }
    remove(&folder)
}

/// Builds the command into a folder, with the wheel's linker for an old glibc.
fn build_command(folder: &Path, triple: &str) -> Outcome {
    let built = std::path::absolute(target())?.join("wheel-build");
    let linker = format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase().replace('-', "_"));
    let mut build = cargo();
    build.env("CARGO_TARGET_DIR", &built).env(linker, built.join("linker"));
    run(build.args(["build", "--release", "--locked", "--package", COMMAND, "--target", triple]))?;
    remove(folder)?;
    fs::create_dir_all(folder)?;
    let program = built.join(triple).join("release").join(COMMAND);
    run(Command::new("strip").arg("--strip-unneeded").arg("-o").arg(folder.join(COMMAND)).arg(program))
}

/// The download of `cargo binstall` for a package.
#[derive(Debug, PartialEq)]
struct Download {
    /// The name of the tarball.
    file: String,
    /// The path of the program in the tarball.
    program: String,
}

impl Download {
    /// Reads the manifest of a package. Returns `None` if `cargo binstall` does not install it.
    fn find(package: &Package, triple: &str) -> Option<Download> {
        let binstall = package.metadata.get("binstall")?;
        let filled = |key: &str| {
            let words = [
                ("{ repo }", package.repository.as_deref().unwrap_or_default()),
                ("{ name }", &package.name),
                ("{ bin }", &package.name),
                ("{ binary-ext }", ""),
                ("{ version }", &package.version.to_string()),
                ("{ target }", triple),
            ];
            let template = binstall.get(key)?.as_str()?.to_owned();
            Some(words.iter().fold(template, |text, (word, value)| text.replace(word, value)))
        };
        let url = filled("pkg-url")?;
        Some(Download { file: url.rsplit('/').next()?.to_owned(), program: filled("bin-dir")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// People without Rust get every command that `cargo install` offers.
    #[test]
    fn each_published_command_can_be_downloaded() {
        let packages = published().unwrap();
        let commands: Vec<_> =
            packages.iter().filter(|package| package.targets.iter().any(|target| target.is_bin())).collect();
        assert_eq!(commands.len(), 2);
        for package in commands {
            let (name, version) = (&package.name, &package.version);
            let expected = Download {
                file: format!("{name}-{version}-{HOST}.tar.gz"),
                program: format!("{name}/{name}"),
            };
            assert_eq!(Download::find(package, HOST), Some(expected));
            let binstall = &package.metadata["binstall"];
            let url = binstall["pkg-url"].as_str().unwrap();
            // The tag that docs/releasing.md creates.
            assert!(url.starts_with("{ repo }/releases/download/v{ version }/"), "{url}");
            assert_eq!(binstall["pkg-fmt"], "tgz");
        }
    }
}
