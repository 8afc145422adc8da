//! Defines `WarmError`, the error of a whole warm-up.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use cudarc::driver::sys::CUresult;
use kernel_registry_format::Printable;

use super::causes::groups;
use super::report::Report;
use super::words::{Bytes, Count, NoThread};
use crate::RegistryError;
use crate::driver::{DriverCallError, DriverUnavailable};
use crate::sections::WouldWait;

/// Why a warm-up failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarmError {
    /// There is no usable driver.
    DriverUnavailable(DriverUnavailable),
    /// The registry could not be read.
    Registry(RegistryError),
    /// Crates that [`Warmup::expect`](crate::Warmup::expect) names have no kernels in this program.
    NotRegistered {
        /// These crates.
        missing: Vec<String>,
        /// The packages that have kernels.
        registered: Vec<&'static str>,
    },
    /// The file that [`Warmup::baked`](crate::Warmup::baked) names is missing.
    NoBakedFile {
        /// Its path.
        file: PathBuf,
    },
    /// A driver call failed for the whole context, or for this library's own kernels.
    Driver {
        /// The driver's error.
        error: DriverCallError,
        /// The kernel or image that the call was for. Empty if the call was for the context.
        about: &'static str,
        /// The log of the driver's compiler, if the compiler ran.
        log: String,
    },
    /// A `#[warmup]` function, or a thread that the function has started, tried to warm the context that the function runs in.
    InHook {
        /// The function's path.
        hook: &'static str,
    },
    /// A `#[warmup]` function has not returned in time. It still runs, in a separate thread.
    HookTimedOut {
        /// The function's path.
        hook: &'static str,
        /// How long the function was allowed to run.
        timeout: Duration,
    },
    /// The printf buffer or the heap cannot be enlarged: the driver has already fixed its size.
    LimitFrozen {
        /// Which of the two cannot be enlarged.
        limit: FrozenLimit,
        /// The requested size, in bytes.
        asked: u64,
        /// The present size, in bytes.
        size: u64,
    },
    /// The operating system could not start a thread.
    NoThread {
        /// The operating system's reason.
        reason: String,
    },
    /// A driver call did not return in time: it waits for the device, which is busy.
    TimedOut {
        /// The name of the call. The call still waits, in a separate thread.
        call: &'static str,
        /// The kernel or image that the call is for. Empty if the call is for the context.
        about: &'static str,
        /// How long the call has waited.
        timeout: Duration,
    },
    /// A resident kernel runs, and the warm-up would have to load something, or make another change that waits for that kernel.
    WouldWait(Box<WouldWait>),
    /// Some kernels could not be warmed, or `#[warmup]` functions failed. The other kernels are warm.
    Kernels {
        /// The report, with every failure.
        report: Box<Report>,
    },
}

/// Memory whose size the driver fixes in a context at the first launch of a kernel that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrozenLimit {
    /// The printf buffer.
    PrintfFifo,
    /// The heap of `malloc` and `new`.
    Heap,
}

impl fmt::Display for WarmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WarmError::DriverUnavailable(error) => write!(f, "{error}"),
            WarmError::Registry(error) => write!(f, "{error}"),
            WarmError::NotRegistered { missing, registered } => {
                let listed = |names: &[&str]| {
                    let quoted: Vec<_> = names.iter().map(|name| format!("`{}`", Printable(name))).collect();
                    quoted.join(", ")
                };
                let missing: Vec<_> = missing.iter().map(String::as_str).collect();
                let there = match &registered[..] {
                    [] => "no crate has any".to_owned(),
                    there => format!("kernels of {} are", listed(there)),
                };
                write!(
                    f,
                    "no kernel of {} is registered, {there}: rustc links no crate that the code never names, so write \
                     `kernel_registry::link_kernels!({});` in the program, or correct the name in `Warmup::expect`",
                    listed(&missing),
                    missing[0].replace('-', "_")
                )
            }
            WarmError::NoBakedFile { file } => write!(
                f,
                "there is no file of baked code `{}`: make it with `cargo kernels bake`",
                Printable(&file.display().to_string())
            ),
            WarmError::Driver { error, about, log } => {
                if !about.is_empty() {
                    write!(f, "{about}: ")?;
                }
                if error.is(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
                    write!(
                        f,
                        "{}: the driver itself has no device memory left; warm kernels before anything else takes it",
                        error.in_short()
                    )
                } else if error.is_sticky() {
                    write!(f, "{}: the driver does not work in this process any more", error.in_short())
                } else if log.is_empty() {
                    write!(f, "{}, and no kernel was warmed; try again", error.in_short())
                } else {
                    write!(f, "{}; the driver's compiler says:\n{}", error.in_short(), Printable(log))
                }
            }
            WarmError::InHook { hook } => write!(
                f,
                "the `#[warmup]` function `{hook}`, or a thread that it has started, warms the context that it runs in, and \
                 would wait for itself; the kernels that the warm-up selects are warm when the function runs, so select those \
                 that it launches"
            ),
            WarmError::HookTimedOut { hook, timeout } => write!(
                f,
                "the `#[warmup]` function `{hook}` has not returned within {:.1} s; allow more time with \
                 `Warmup::hook_timeout`, unless it waits for a thread that warms this context, which waits for it",
                timeout.as_secs_f64()
            ),
            WarmError::LimitFrozen { limit, asked, size } => {
                let (what, user, method) = match limit {
                    FrozenLimit::PrintfFifo => ("printf buffer", "printf", "printf_fifo"),
                    FrozenLimit::Heap => ("kernels' heap", "malloc", "heap"),
                };
                write!(
                    f,
                    "the {what} has {}, and `Warmup::{method}` asks for {}: the driver fixed its size at the first launch \
                     of a kernel with {user}; ask in the context's first warm-up, before any other launch",
                    Bytes(*size),
                    Bytes(*asked)
                )
            }
            WarmError::NoThread { reason } => {
                write!(f, "no kernel was warmed: {}", NoThread(reason))
            }
            WarmError::TimedOut { call, about, timeout } => {
                write!(f, "`{call}` ")?;
                if !about.is_empty() {
                    write!(f, "for {about} ")?;
                }
                write!(
                    f,
                    "has waited for {:.1} s: the device is busy; warm kernels before launching a resident one, or allow \
                     more time with `Warmup::timeout`",
                    timeout.as_secs_f64()
                )
            }
            WarmError::WouldWait(wait) => write!(f, "{wait}"),
            WarmError::Kernels { report } => {
                let hooks = report.hook_failures.len();
                let (failed, warm) = (report.failures.len(), report.kernels.len());
                match (failed, hooks) {
                    (_, 0) => write!(f, "{} could not be warmed, {warm} are:", Count(failed, "kernel"))?,
                    (0, _) => {
                        let (hooks, warm) = (Count(hooks, "warmup function"), Count(warm, "kernel"));
                        write!(f, "{hooks} failed, with {warm} warm:")?;
                    }
                    _ => {
                        let (failed, hooks) = (Count(failed, "kernel"), Count(hooks, "warmup function"));
                        write!(f, "{failed} could not be warmed, {warm} are, and {hooks} failed:")?;
                    }
                }
                groups(&report.failures).iter().try_for_each(|group| write!(f, "\n  {group}"))?;
                report.hook_failures.iter().try_for_each(|failure| write!(f, "\n  {failure}"))
            }
        }
    }
}

/// A variant that only wraps another error has that error's text and source.
impl Error for WarmError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            WarmError::DriverUnavailable(error) => error.source(),
            WarmError::Registry(error) => error.source(),
            WarmError::Driver { error, .. } => Some(error),
            WarmError::WouldWait(wait) => wait.source(),
            _ => None,
        }
    }
}

impl From<DriverUnavailable> for WarmError {
    fn from(error: DriverUnavailable) -> Self {
        WarmError::DriverUnavailable(error)
    }
}

impl From<RegistryError> for WarmError {
    fn from(error: RegistryError) -> Self {
        WarmError::Registry(error)
    }
}

impl From<DriverCallError> for WarmError {
    fn from(error: DriverCallError) -> Self {
        WarmError::Driver { error, about: "", log: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;

    #[test]
    fn a_compilers_log_is_printable() {
        let error = || DriverCallError { call: "cuModuleLoadData", code: 218, name: "", description: "" };
        let log = || "unknown `\u{1b}[2J`\nline 2".to_owned();
        let texts = [
            Cause::Refused { error: error(), log: log() }.to_string(),
            WarmError::Driver { error: error(), about: "", log: log() }.to_string(),
        ];
        for text in texts {
            assert!(text.ends_with("unknown `\\u001b[2J`\nline 2"), "{text}");
        }
    }
}
