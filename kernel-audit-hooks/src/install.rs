//! Audits a Rust program from inside: puts the hooks in front of the driver, and reads what they recorded.

use std::error::Error;
use std::iter;

use crate::causes::causes;
use crate::hang::Hanging;
use crate::options::Audit;
use crate::outcome::{InstallError, Installed, NotWatched};
use crate::record::{self, Event, Kind, Report};

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
use self::elsewhere as front;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use crate::watch::front;

/// Watches the driver calls of this process from now on, as `kernel-audit` does from outside. Call it before CUDA is used.
///
/// From then on everything that opens `libcuda.so` in this process, cudarc included, finds the watched functions, and
/// behind them the driver, or the [simulated driver](https://docs.rs/kernel-registry-sim) if that was installed first.
/// If `kernel-audit` runs the program, the command's hooks stay in front, and `install` changes nothing: [`findings`]
/// reads the record of those hooks.
///
/// The record of the process is in memory, of which it uses up to 12 MB as events come. It becomes a file only if
/// [`Audit::records`] or a [variable](crate::variables) says so.
///
/// # Errors
///
/// [`InstallError`]: there is no driver, or it was opened before.
///
/// ```no_run
/// # use kernel_audit_hooks as kernel_audit;
/// # fn serve() {}
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     kernel_audit::install()?;
///     // Make a context, call `warm_all`, take requests ..
///     kernel_audit::ready()?;
///     serve();
///     for late in kernel_audit::findings()? {
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
    /// The errors of [`install`].
    pub fn install(self) -> Result<Installed, InstallError> {
        front::install(self)
    }
}

/// Marks the program as ready, whoever watches it: from now on each late call is a finding. `Warm::seal` of
/// kernel-registry does the same.
///
/// # Errors
///
/// [`NotWatched::NotInstalled`]: neither [`install`] nor `kernel-audit` watches the program, or it has not opened the driver.
pub fn ready() -> Result<(), NotWatched> {
    front::ready().ok_or(NotWatched::NotInstalled)
}

/// Begins a stretch of time of this name, and ends the one before; an empty name only ends. With [`Audit::first`], or
/// behind `kernel-audit --first SECONDS`, the report says where the time of each stretch went.
///
/// # Errors
///
/// [`NotWatched::NotInstalled`]: the program isn't audited, as for [`ready`].
///
/// ```no_run
/// # use kernel_audit_hooks as kernel_audit;
/// # fn serve() {}
/// kernel_audit::mark("first request")?;
/// serve();
/// kernel_audit::mark("")?;
/// # Ok::<(), kernel_audit::NotWatched>(())
/// ```
pub fn mark(name: &str) -> Result<(), NotWatched> {
    front::mark(name).ok_or(NotWatched::NotInstalled)
}

/// Returns what was recorded in this process so far.
///
/// # Errors
///
/// [`NotWatched`]: there is no record of this process, or another version wrote it.
pub fn report() -> Result<Report, NotWatched> {
    let bytes = front::record().ok_or(NotWatched::NotInstalled)?;
    record::read(&bytes).map_err(NotWatched::NotRead)
}

/// Returns the findings so far: what was late after the program was ready, and calls that hang.
///
/// # Errors
///
/// The errors of [`report`].
pub fn findings() -> Result<Vec<Event>, NotWatched> {
    Ok(report()?.events.into_iter().filter(|event| event.is_finding).collect())
}

/// Asserts that nothing was late after the program was ready, that no call would have waited for a resident kernel, and
/// that no call hangs. All tests of a process share its record, so tests that make findings on purpose belong to
/// another process.
///
/// ```no_run
/// # use kernel_audit_hooks as kernel_audit;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// kernel_audit::install()?;
/// // Warm, say that the program is ready, and serve a request ..
/// kernel_audit::assert_no_findings();
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// There are findings, or the process is not watched. The message on findings has the cause and the remedy of each
/// kind, and the caller of the longest.
#[track_caller]
pub fn assert_no_findings() {
    let report = report().unwrap_or_else(|error| {
        panic!("{error}{}", error.source().map_or(String::new(), |cause| format!(" ({cause})")))
    });
    let text = in_words(&report);
    assert!(text.is_empty(), "{text}");
}

/// Describes the findings of a process for people. Returns an empty text if there are none.
fn in_words(report: &Report) -> String {
    let mut text = String::new();
    for hang in report.events.iter().filter(|event| event.kind == Kind::Hang) {
        text += &format!("\n{}", Hanging::new(hang, report.uses_kernel_registry).in_words(&hang.stack));
    }
    for cause in causes(iter::once(report)) {
        text += &format!("\n{cause}, by {}.", cause.caller());
        if let Some(remedy) = cause.remedy() {
            text += &format!("\nRemedy: {remedy}.");
        }
    }
    if text.is_empty() { text } else { format!("the audit has findings:{text}") }
}

/// Stands in for the hooks on other operating systems, which have none.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod elsewhere {
    use super::{Audit, InstallError, Installed};

    pub(super) fn install(_: Audit) -> Result<Installed, InstallError> {
        Err(InstallError::NotSupported)
    }

    pub(super) fn ready() -> Option<()> {
        None
    }

    pub(super) fn mark(_: &str) -> Option<()> {
        None
    }

    pub(super) fn record() -> Option<Vec<u8>> {
        None
    }
}
