//! Environment variables: the process's own, or values that the build script sets instead.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use crate::{Error, Result};

/// Variables that choose a compiler or change what it does. Cargo runs the build script again when one of
/// these changes.
pub(crate) const WATCHED: &[&str] =
    &[CHOICE, "CUDA_HOME", "CUDA_PATH", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"];

/// Variables that decide where compilers are found. They differ between shells and editors, and each change
/// would recompile the package, so cargo watches them only where needed.
pub(crate) const LEADING: &[&str] = &["PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"];

/// The roots of Python environments.
pub(crate) const PYTHON: &[&str] = &["VIRTUAL_ENV", "CONDA_PREFIX"];

/// Variables that change nvcc's output silently.
pub(crate) const OF_NVCC: &[&str] = &["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"];

/// The variable that names the compiler to use.
pub(crate) const CHOICE: &str = "KERNEL_REGISTRY_COMPILER";

#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// Whether the process's own variables are ignored.
    cleared: bool,
    set: BTreeMap<OsString, OsString>,
}

impl Environment {
    pub(crate) fn set(&mut self, name: &OsStr, value: &OsStr) {
        self.set.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn clear(&mut self) {
        self.set.clear();
        self.cleared = true;
    }

    /// Returns the value of a variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<OsString> {
        let value = match self.set.get(OsStr::new(name)) {
            Some(value) => Some(value.clone()),
            None if self.cleared => None,
            None => env::var_os(name),
        };
        value.filter(|value| !value.is_empty())
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// Returns the folder in a variable that cargo sets for build scripts.
    pub(crate) fn folder(&self, name: &'static str) -> Result<PathBuf> {
        self.path(name).ok_or(Error::NoVariable { name })
    }

    pub(crate) fn is_release(&self) -> bool {
        self.get("PROFILE").is_some_and(|profile| profile == "release")
    }

    /// Sets these variables for a child process.
    pub(crate) fn apply_to(&self, command: &mut Command) {
        if self.cleared {
            command.env_clear();
        }
        command.envs(&self.set);
    }
}
