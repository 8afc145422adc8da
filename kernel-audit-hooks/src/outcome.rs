//! Defines the result of [`install`](crate::install()), and the reasons why a process is not watched.

use std::error::Error;
use std::fmt;
use std::io;

use crate::record::NotRead;

/// How a process came to be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Installed {
    /// The hooks are in front of the driver now.
    Now,
    /// The hooks were in front of the driver before, with the same options.
    Before,
    /// `kernel-audit` runs the program, with options of its own.
    FromOutside,
}

/// Why a process is not watched.
#[derive(Debug)]
#[non_exhaustive]
pub enum InstallError {
    /// The driver was opened before, so its functions may be in use.
    AlreadyOpen,
    /// The audit was installed before, with other options, which stay in force.
    OtherOptions,
    /// There is no driver.
    NoDriver {
        /// The loader's message.
        reason: String,
    },
    /// The child process that looks for the driver's file has failed.
    Child(io::Error),
    /// The process was forked from one that had used the driver, which does not work in the child.
    Forked,
    /// The library by which programs find the hooks could not be made.
    File(io::Error),
    /// The loader refused that library.
    Loader {
        /// The loader's message.
        reason: String,
    },
    /// The operating system is not Linux with glibc.
    NotSupported,
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstallError::AlreadyOpen => f.write_str(
                "the driver was opened before the audit was installed; call `install` first in `main`, or run the program by `kernel-audit`",
            ),
            InstallError::OtherOptions => f.write_str(
                "the audit was installed in this process before, with other options; install it once, in `main` or before the first test"
            ),
            InstallError::NoDriver { reason } => write!(
                f,
                "no CUDA driver was found ({reason}); install NVIDIA's driver, or the simulated one by \
                 `kernel_registry_sim::install` before"
            ),
            InstallError::Child(_) => f.write_str(
                "the driver's file was not found, because the child process that looks for it failed; name the file by `Audit::driver`",
            ),
            InstallError::Forked => f.write_str(
                "this process was forked from one that had used CUDA, and the driver does not work in the child; fork before CUDA is \
                 used, or start a new program",
            ),
            InstallError::File(_) => {
                f.write_str("the audit needs a file in memory, and could not make it; allow `memfd_create`")
            }
            InstallError::Loader { reason } => {
                write!(f, "the hooks were not loaded: {reason}; is the driver's file right?")
            }
            InstallError::NotSupported => f.write_str("programs are audited on Linux with glibc only"),
        }
    }
}

impl Error for InstallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            InstallError::Child(error) | InstallError::File(error) => Some(error),
            _ => None,
        }
    }
}

/// Why there is no record to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotWatched {
    /// [`install`](crate::install()) was not called, or has failed.
    NotInstalled,
    /// The `kernel-audit` that runs the program has another version.
    NotRead(NotRead),
}

impl fmt::Display for NotWatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotWatched::NotInstalled => {
                f.write_str(
                    "this process is not watched; call `kernel_audit::install` first, or run it by `kernel-audit`",
                )
            }
            NotWatched::NotRead(_) => f.write_str(
                "the record of this process cannot be read; use one version of the audit in the program and in the command that runs it",
            ),
        }
    }
}

impl Error for NotWatched {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            NotWatched::NotInstalled => None,
            NotWatched::NotRead(why) => Some(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_the_source_and_not_in_the_text() {
        let cause = || io::Error::other("no room");
        for error in [InstallError::Child(cause()), InstallError::File(cause())] {
            assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("no room"));
            assert!(!error.to_string().contains("no room"), "{error}");
        }
        let error = NotWatched::NotRead(NotRead::NoRecord);
        assert_eq!(error.source().map(ToString::to_string), Some(NotRead::NoRecord.to_string()));
        assert!(InstallError::AlreadyOpen.source().is_none() && NotWatched::NotInstalled.source().is_none());
    }
}
