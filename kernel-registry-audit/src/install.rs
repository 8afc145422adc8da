//! The audit in a Rust program: puts the hooks in front of the driver, and reads what they recorded.

use std::error::Error;
use std::fmt;
use std::io;
use std::iter;

use crate::causes::causes;
use crate::options::Audit;
use crate::record::{self, Happened, Kind, NotRead, Report};

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
use self::elsewhere as front;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use crate::watch::front;

/// Watches the driver calls of this process from now on, as `cargo kernels audit` does from outside. Call it before CUDA is used.
///
/// From then on everything that opens `libcuda.so` in this process, cudarc included, finds the watched functions, and behind them
/// the driver, or the [simulated driver](https://docs.rs/kernel-registry-sim) if that was installed first. If `cargo kernels audit`
/// runs the program, that stays in front, and this changes nothing: [`findings`] reads its record.
///
/// The record of the process is in memory, 11 MB that are used as events come. It becomes a file only if
/// [`Audit::records`] or a [variable](crate::variables) says so.
///
/// # Errors
///
/// [`InstallError`]: there is no driver, or it was opened before.
///
/// ```no_run
/// # fn serve() {}
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     kernel_registry_audit::install()?;
///     // Make a context, call `warm_all`, take requests ..
///     kernel_registry_audit::ready()?;
///     serve();
///     for late in kernel_registry_audit::findings()? {
///         eprintln!("{} of {} took {} ns", late.call, late.subject, late.took);
///     }
///     Ok(())
/// }
/// ```
pub fn install() -> Result<Installed, InstallError> {
    Audit::new().install()
}

impl Audit {
    /// Watches the driver calls of this process: see [`install`].
    ///
    /// # Errors
    ///
    /// Those of [`install`].
    pub fn install(self) -> Result<Installed, InstallError> {
        front::install(self)
    }
}

/// Marks the program as ready, whoever watches it: from now on everything late is a finding. `Warm::seal` of kernel-registry does it
/// too.
///
/// # Errors
///
/// [`NotWatched::NotInstalled`]: neither [`install`] nor `cargo kernels audit` watches the program, or it has not opened the driver.
pub fn ready() -> Result<(), NotWatched> {
    front::ready().ok_or(NotWatched::NotInstalled)
}

/// What was recorded in this process so far.
///
/// # Errors
///
/// [`NotWatched`]: there is no record of this process, or another version wrote it.
pub fn report() -> Result<Report, NotWatched> {
    let bytes = front::record().ok_or(NotWatched::NotInstalled)?;
    record::read(&bytes).map_err(NotWatched::NotRead)
}

/// What was late after the program was ready, and calls that hang, so far.
///
/// # Errors
///
/// Those of [`report`].
pub fn findings() -> Result<Vec<Happened>, NotWatched> {
    Ok(report()?.events.into_iter().filter(|event| event.is_finding).collect())
}

/// Asserts that nothing was late after the program was ready, that no call would have waited for a kernel that stayed, and that none
/// hangs. All tests of a process share its record: those that make findings on purpose belong to another process.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// kernel_registry_audit::install()?;
/// // Warm, say that the program is ready, and serve a request ..
/// kernel_registry_audit::assert_no_findings();
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// There are findings: the message has the cause and the remedy of each kind, and the caller of the longest. Or the process is not watched.
#[track_caller]
pub fn assert_no_findings() {
    let report = report().unwrap_or_else(|error| panic!("{error}"));
    let text = in_words(&report);
    assert!(text.is_empty(), "{text}");
}

/// The findings of a process for people, or nothing.
fn in_words(report: &Report) -> String {
    let mut text = String::new();
    for hang in report.events.iter().filter(|event| event.kind == Kind::Hang) {
        text += &format!("\n{}", hang.text);
    }
    for cause in causes(iter::once(report)) {
        text += &format!("\n{cause}, by {}.", cause.caller());
        if let Some(remedy) = cause.remedy() {
            text += &format!("\nRemedy: {remedy}.");
        }
    }
    if text.is_empty() { text } else { format!("the audit has findings:{text}") }
}

/// How a process came to be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Installed {
    /// The hooks are in front of the driver now.
    Now,
    /// They were already, with the same options.
    Before,
    /// `cargo kernels audit` runs the program, with its own options.
    FromOutside,
}

/// Why a process is not watched.
#[derive(Debug)]
#[non_exhaustive]
pub enum InstallError {
    /// The driver was opened before, so its functions may be in use.
    AlreadyOpen,
    /// The audit was installed before, with other options, which stay.
    OtherOptions,
    /// There is no driver.
    NoDriver {
        /// The loader's words.
        reason: String,
    },
    /// The child process that looks for the driver's file has failed.
    Child(io::Error),
    /// The process was forked from one that had used the driver, which does not work in the child.
    Forked,
    /// The library by which programs find the hooks could not be made.
    File(io::Error),
    /// The loader refused it.
    Loader {
        /// The loader's words.
        reason: String,
    },
    /// The system is not Linux with glibc.
    NotSupported,
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstallError::AlreadyOpen => f.write_str(
                "the driver was opened before the audit was installed; call `install` first in `main`, or run the program by `cargo \
                 kernels audit`",
            ),
            InstallError::OtherOptions => f.write_str(
                "the audit was installed in this process before, with other options; install it once, in `main` or before the first test"
            ),
            InstallError::NoDriver { reason } => write!(
                f,
                "no CUDA driver was found ({reason}); install NVIDIA's driver, or the simulated one by \
                 `kernel_registry_sim::install` before"
            ),
            InstallError::Child(error) => write!(
                f,
                "the driver's file was not found, because the child process that looks for it failed: {error}; name the file by \
                 `Audit::driver`"
            ),
            InstallError::Forked => f.write_str(
                "this process was forked from one that had used CUDA, and the driver does not work in the child; fork before CUDA is \
                 used, or start a new program",
            ),
            InstallError::File(error) => {
                write!(f, "the audit needs a file in memory: {error}; allow `memfd_create`")
            }
            InstallError::Loader { reason } => {
                write!(f, "the hooks were not loaded: {reason}; is the driver's file right?")
            }
            InstallError::NotSupported => f.write_str("programs are audited on Linux with glibc only"),
        }
    }
}

/// The text has the cause, so there is no `source`.
impl Error for InstallError {}

/// Why there is nothing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotWatched {
    /// [`install`] was not called, or has failed.
    NotInstalled,
    /// The `cargo kernels audit` that runs the program has another version.
    NotRead(NotRead),
}

impl fmt::Display for NotWatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotWatched::NotInstalled => {
                f.write_str(
                    "this process is not watched; call `kernel_registry_audit::install` first, or run it by `cargo kernels audit`",
                )
            }
            NotWatched::NotRead(why) => write!(f, "the record of this process cannot be read: {why}"),
        }
    }
}

/// The text has the cause, so there is no `source`.
impl Error for NotWatched {}

/// Other systems have no hooks.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod elsewhere {
    use super::{Audit, InstallError, Installed};

    pub(super) fn install(_: Audit) -> Result<Installed, InstallError> {
        Err(InstallError::NotSupported)
    }

    pub(super) fn ready() -> Option<()> {
        None
    }

    pub(super) fn record() -> Option<Vec<u8>> {
        None
    }
}
