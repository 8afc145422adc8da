//! Unpacks packages of any Debian release into a folder, without installing anything on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, entries, files_with, remove};

/// Apt with separate state.
pub(crate) struct Apt {
    /// Holds its configuration, lists and packages.
    folder: PathBuf,
    /// Where packages are unpacked.
    to: PathBuf,
}

impl Apt {
    pub(crate) fn new(
        folder: &Path,
        name: &str,
        release: &str,
        architecture: &str,
        status: &str,
    ) -> Outcome<Self> {
        let apt = Apt { folder: folder.join("apt").join(name), to: folder.join(name) };
        remove(&apt.folder)?;
        remove(&apt.to)?;
        for part in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(apt.folder.join(part))?;
        }
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let source = format!("deb [signed-by={keys}] {} {release} main\n", mirror()?);
        fs::write(apt.folder.join("sources.list"), source)?;
        let configuration = format!(
            "Dir::Etc::sourcelist \"{0}/sources.list\";\nDir::Etc::sourceparts \"-\";\nDir::State \"{0}/state\";\n\
             Dir::State::status \"{status}\";\nDir::Cache \"{0}/cache\";\nAPT::Architecture \"{architecture}\";\n\
             APT::Architectures \"{architecture}\";\nAPT::Sandbox::User \"root\";\nAPT::Install-Recommends \"false\";\n\
             Acquire::Languages \"none\";\nAcquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
             Debug::NoLocking \"true\";\n",
            apt.folder.display()
        );
        fs::write(apt.folder.join("apt.conf"), configuration)?;
        apt.get(&["update"])?;
        Ok(apt)
    }

    fn get(&self, args: &[&str]) -> Outcome {
        let mut command = Command::new("apt-get");
        command.arg("-qq").args(args).env("APT_CONFIG", self.folder.join("apt.conf"));
        // `download` writes into the working directory. Apt warns that it can't switch to another user there.
        runs(command.current_dir(self.folder.join("cache/archives")))
    }

    /// Downloads packages with this subcommand, and unpacks them.
    pub(crate) fn unpack(&self, subcommand: &[&str], packages: &[&str]) -> Outcome {
        self.get(&[subcommand, packages].concat())?;
        fs::create_dir_all(&self.to)?;
        for package in files_with("deb", &self.folder.join("cache/archives"))? {
            runs(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&self.to))?;
        }
        Ok(())
    }
}

/// Returns the address of the mirror that this machine uses.
fn mirror() -> Outcome<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    files.extend(entries(Path::new("/etc/apt/sources.list.d")).unwrap_or_default());
    let text: String = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    let words = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    let mirror = words.into_iter().find(|word| word.starts_with("http") && word.ends_with("/debian"));
    Ok(mirror.ok_or("apt has no mirror of Debian in /etc/apt")?.to_owned())
}

/// Runs a command that must succeed.
pub(crate) fn runs(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed ({status}): see what it says above, and that there is a network").into())
}
