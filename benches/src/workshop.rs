//! Crates that are generated, edited and built for a measurement, in a folder under cargo's target directory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use crate::Result;

/// Where the crates of one comparison are, with a target directory that they share.
pub struct Workshop {
    folder: PathBuf,
}

/// A crate in the workshop, which is a workspace of its own.
pub struct Package {
    name: &'static str,
    folder: PathBuf,
    target: PathBuf,
}

/// How a crate is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As by `cargo build`.
    Debug,
    /// As by `cargo build --release`.
    Release,
    /// The same, without symbols.
    Stripped,
}

/// A file of a crate: its path in the crate's folder, and what it holds.
pub type File = (String, Vec<u8>);

impl Workshop {
    /// The folder of this name in the target directory that this program was built into.
    pub fn open(name: &str) -> Result<Self> {
        let program = env::current_exe()?;
        // Cargo marks its target directory as a cache, wherever the user has it.
        let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
        let target =
            target.ok_or("this program is not in a target directory of cargo: start it with `cargo run`")?;
        Ok(Workshop { folder: target.join("benches").join(name) })
    }

    /// Writes a binary crate with these dependencies, as they stand in its manifest, and these files.
    pub fn package(&self, name: &'static str, dependencies: &str, files: Vec<File>) -> Result<Package> {
        let package = Package { name, folder: self.folder.join(name), target: self.folder.join("target") };
        // What an earlier version of the generator left behind must not be built.
        if package.folder.exists() {
            fs::remove_dir_all(&package.folder)?;
        }
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [dependencies]\n{dependencies}\n\n[profile.stripped]\ninherits = \"release\"\nstrip = true\n"
        );
        package.write("Cargo.toml", manifest.as_bytes())?;
        // The same versions as in our own workspace, which are on this machine already.
        fs::copy(repository().join("Cargo.lock"), package.folder.join("Cargo.lock"))?;
        for (path, contents) in files {
            package.write(&path, &contents)?;
        }
        Ok(package)
    }
}

impl Package {
    /// The crate's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The text of a file.
    pub fn read(&self, path: &str) -> Result<String> {
        Ok(fs::read_to_string(self.folder.join(path))?)
    }

    /// Writes a file.
    pub fn write(&self, path: &str, contents: &[u8]) -> Result<()> {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        Ok(fs::write(path, contents)?)
    }

    /// Builds it, and says how long cargo took.
    pub fn build(&self, profile: Profile) -> Result<Duration> {
        // Asking the network first would be part of the time.
        self.cargo_build(profile, &["--offline"]).or_else(|_| self.cargo_build(profile, &[]))
    }

    fn cargo_build(&self, profile: Profile, options: &[&str]) -> Result<Duration> {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--profile", profile.name()]).args(options);
        cargo.arg("--manifest-path").arg(self.folder.join("Cargo.toml"));
        cargo.arg("--target-dir").arg(&self.target);
        // CI turns incremental builds off; but a rebuild as people see it is what is measured.
        cargo.env_remove("CARGO_INCREMENTAL");
        let start = Instant::now();
        let output = cargo.output()?;
        let time = start.elapsed();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`{}` does not build: {}\n{errors}", self.name, output.status).into());
        }
        Ok(time)
    }

    /// Where its program is, once built.
    pub fn program(&self, profile: Profile) -> PathBuf {
        let file = format!("{}{}", self.name, env::consts::EXE_SUFFIX);
        self.target.join(profile.folder()).join(file)
    }
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Profile::Debug => "dev",
            Profile::Release => "release",
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

/// The root of the workspace that the benches belong to.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
