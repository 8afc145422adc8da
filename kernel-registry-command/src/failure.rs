//! Errors of the functions that the commands share, each with a message and an exit code. A message leaves out the
//! message of its cause: [`with_causes`] adds that.

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use kernel_registry_format::baked::Damage;

use crate::compiler::NoCompiler;
use crate::plural::many;

/// Why a function that the commands share failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each says what its fields are")]
pub enum Failure {
    #[error("there is no file `{path}`")]
    Missing { path: PathBuf },
    #[error("no permission to read `{path}`")]
    Denied { path: PathBuf },
    #[error("`{path}` cannot be read")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{path}` is not a binary: expected an executable, shared library, archive or object file")]
    NotABinary { path: PathBuf },
    #[error("`{path}` is a binary that is truncated or damaged")]
    Truncated { path: PathBuf, source: object::Error },
    #[error("`{path}` cannot be written")]
    NotWritten { path: PathBuf, source: io::Error },
    #[error("cargo could not describe the package: {error}")]
    Cargo { error: String },
    #[error(
        "{crate_name} did not build (see cargo's error above): it needs Rust 1.89 or newer, a linker, and once \
         {crate_name} {version} with its dependencies, from the network or from what cargo has downloaded before"
    )]
    NotBuilt { crate_name: &'static str, version: &'static str },
    #[error(
        "the simulated driver `{path}` cannot be used: {why}; delete the file, so that it is built again"
    )]
    NotLoaded { path: PathBuf, why: String },
    #[error(
        "{what} cannot be in `{path}`: `{separator}` ends the name of a folder in `LD_LIBRARY_PATH`; set `{variable}` \
         to a folder without it"
    )]
    Separator { what: &'static str, path: PathBuf, separator: char, variable: &'static str },
    #[error("`{}` cannot be run", .program.display())]
    NotRun { program: OsString, source: io::Error },
    #[error(
        "`{0}` is not an option; see `--help`. Options come before the program, and a program of that name is `./{0}`",
        .option.display()
    )]
    NoOption { option: OsString },
    #[error("`{path}` is not used, and has to be baked again")]
    Baked { path: PathBuf, source: Damage },
    #[error("nothing can be compiled")]
    NoCompiler { source: NoCompiler },
    #[error("{} could not be compiled (see above)", many(*.count, "image"))]
    NotBaked { count: usize },
    #[error("the output could not be written")]
    Output { source: io::Error },
}

impl Failure {
    /// Returns the exit code of a command that failed in this way.
    pub fn code(&self) -> u8 {
        match self {
            Failure::NoOption { .. } => 2,
            Failure::Missing { .. } => 3,
            Failure::Denied { .. } => 4,
            Failure::NotABinary { .. } => 5,
            Failure::Truncated { .. } | Failure::Baked { .. } => 6,
            Failure::NotBuilt { .. } | Failure::NoCompiler { .. } | Failure::NotBaked { .. } => 9,
            // Shells and `env` use these two codes, so they can be told from the program's own codes.
            Failure::NotRun { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Failure::NotRun { .. } => 126,
            _ => 1,
        }
    }

    /// Returns a function that turns an error of opening this path into a failure.
    pub fn of_io(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |error| match (error.kind(), path.to_owned()) {
            (io::ErrorKind::NotFound, path) => Failure::Missing { path },
            (io::ErrorKind::PermissionDenied, path) => Failure::Denied { path },
            (_, path) => Failure::Unreadable { path, source: error },
        }
    }

    /// Returns a function that turns an error of writing this path into a failure.
    pub fn not_written(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |error| Failure::NotWritten { path: path.to_owned(), source: error }
    }

    /// Turns an error of running cargo into a failure.
    pub fn of_cargo(error: impl Display) -> Self {
        Failure::Cargo { error: error.to_string() }
    }
}

/// Returns the message of an error, followed by the messages of its causes, in one line.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let failure = Failure::not_written(Path::new("a"))(io::Error::other("no room"));
        assert_eq!(with_causes(&failure), "`a` cannot be written: no room");
        assert!(failure.source().is_some_and(|cause| cause.to_string() == "no room"));
    }
}
