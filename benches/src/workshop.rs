//! Generates and builds crates for a measurement, in a folder below cargo's target directory.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::Result;

/// The crates of a comparison, which share a target directory.
pub struct Workshop {
    folder: PathBuf,
}

/// A generated crate with its own workspace.
pub struct Package {
    name: &'static str,
    folder: PathBuf,
    target: PathBuf,
}

/// The ways to build a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// `cargo build`.
    Debug,
    /// A release build without symbols.
    Stripped,
}

/// A file of a crate: its path in the crate's folder, and its bytes.
pub type File = (String, Vec<u8>);

impl Workshop {
    /// Opens the folder with this name in the target directory of this program.
    pub fn open(name: &str) -> Result<Self> {
        let program = env::current_exe()?;
        // Cargo marks target directories with this file.
        let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
        let target =
            target.ok_or("this program is not in a target directory of cargo: start it with `cargo run`")?;
        Ok(Workshop { folder: target.join("benches").join(name) })
    }

    /// Returns the folder that contains the crates.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a binary crate with these dependencies (manifest lines) and files.
    pub fn package(&self, name: &'static str, dependencies: &str, files: Vec<File>) -> Result<Package> {
        let package = Package { name, folder: self.folder.join(name), target: self.folder.join("target") };
        // Files of an earlier version must not be built.
        if package.folder.exists() {
            fs::remove_dir_all(&package.folder).map_err(|error| about(&package.folder, error))?;
        }
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [dependencies]\n{dependencies}\n\n[profile.stripped]\ninherits = \"release\"\nstrip = true\n"
        );
        package.write("Cargo.toml", manifest.as_bytes())?;
        // The versions of this workspace, which have already been downloaded.
        let lock = repository().join("Cargo.lock");
        fs::copy(&lock, package.folder.join("Cargo.lock")).map_err(|error| about(&lock, error))?;
        for (path, contents) in files {
            package.write(&path, &contents)?;
        }
        Ok(package)
    }
}

impl Package {
    /// Writes a file.
    fn write(&self, path: &str, contents: &[u8]) -> Result<()> {
        let path = self.folder.join(path);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(|error| about(folder, error))?;
        fs::write(&path, contents).map_err(|error| about(&path, error))
    }

    /// Builds the crate.
    pub fn build(&self, profile: Profile) -> Result<()> {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--profile", profile.name()]);
        cargo.arg("--manifest-path").arg(self.folder.join("Cargo.toml"));
        let output = cargo.arg("--target-dir").arg(&self.target).output()?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`cargo build` of `{}` failed:\n{errors}", self.name).into());
        }
        Ok(())
    }

    /// Returns the path of the built program.
    pub fn program(&self, profile: Profile) -> PathBuf {
        let file = format!("{}{}", self.name, env::consts::EXE_SUFFIX);
        self.target.join(profile.folder()).join(file)
    }
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Profile::Debug => "dev",
            Profile::Stripped => "stripped",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Profile::Debug => "debug",
            _ => self.name(),
        }
    }
}

fn about(path: &Path, error: io::Error) -> Box<dyn Error> {
    format!("{}: {error}", path.display()).into()
}

/// Returns the root of this workspace.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
