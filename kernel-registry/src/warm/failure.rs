//! Errors of warming: of a whole warm-up, of one kernel, and of one `#[warmup]` function.

use std::fmt;
use std::time::Duration;

use cudarc::driver::sys::CUresult;
use kernel_registry_format::Printable;

use super::causes::groups;
use super::report::{Bytes, Count, Report};
use super::{Warm, ptx_version};
use crate::driver::{CudaVersion, DriverCallError, DriverUnavailable};
use crate::{Place, RegistryError, WouldWait};

/// Why a warm-up failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarmError {
    /// There is no usable driver.
    DriverUnavailable(DriverUnavailable),
    /// The registry could not be read.
    Registry(RegistryError),
    /// A driver call failed for the whole context, or for this library's own kernels.
    Driver {
        /// The driver's error.
        error: DriverCallError,
        /// What the call was for; empty if it was for the context.
        about: &'static str,
        /// The log of the driver's compiler, if that ran.
        log: String,
    },
    /// A `#[warmup]` function tried to warm the context that it runs in.
    InHook {
        /// The function's path.
        hook: &'static str,
    },
    /// A `#[warmup]` function has not returned. It still runs, in a separate thread.
    HookTimedOut {
        /// The function's path.
        hook: &'static str,
        /// How long it was allowed to run.
        timeout: Duration,
    },
    /// The printf buffer or the heap cannot be enlarged: the driver has already set it up.
    LimitFrozen {
        /// Which of the two.
        limit: SetLimit,
        /// The requested size, in bytes.
        asked: u64,
        /// Its size, in bytes.
        size: u64,
    },
    /// The system could not start a thread.
    NoThread {
        /// The system's reason.
        reason: String,
    },
    /// A driver call waits for the device, which is busy.
    TimedOut {
        /// The call. It still waits, in a separate thread.
        call: &'static str,
        /// The kernel or image that the call is for; empty if it is for the context.
        about: &'static str,
        /// How long it has waited.
        timeout: Duration,
    },
    /// There is something to load, or another change to make, that would wait for a resident kernel.
    WouldWait(Box<WouldWait>),
    /// Some kernels could not be warmed, or `#[warmup]` functions failed. The other kernels are warm.
    Kernels {
        /// The report, with every failure.
        report: Box<Report>,
    },
}

/// One of several contexts could not be warmed.
#[derive(Debug)]
#[non_exhaustive]
pub struct WarmEachError {
    /// The receipts of the contexts before it.
    pub warm: Vec<Warm>,
    /// The number of its device.
    pub device: usize,
    /// Why it could not be warmed.
    pub error: Box<WarmError>,
}

impl fmt::Display for WarmEachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WarmEachError { warm, device, error } = self;
        write!(f, "device {device} (after {}): {error}", Count(warm.len(), "warm context"))
    }
}

/// The text has the causes, so there is no `source`.
impl std::error::Error for WarmEachError {}

/// Memory whose size the driver fixes in a context at the first launch of a kernel that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetLimit {
    /// The printf buffer.
    PrintfFifo,
    /// The heap of `malloc` and `new`.
    Heap,
}

/// A `#[warmup]` function that failed. The context's next warm-up runs it again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct HookFailure {
    /// Its path.
    pub path: &'static str,
    /// Where it is.
    pub place: Place,
    /// Why it failed.
    pub cause: HookCause,
}

/// Why a `#[warmup]` function failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum HookCause {
    /// It returned an error.
    Returned {
        /// The error with its causes.
        error: String,
    },
    /// The context could not be set up for it, or for the kernels that it preloaded.
    Setup {
        /// Why.
        cause: Cause,
    },
}

/// A kernel that could not be warmed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Failure {
    /// Its path.
    pub kernel: &'static str,
    /// Where it is declared.
    pub place: Place,
    /// Its image, if it has one.
    pub image: Option<&'static str>,
    /// The image's variants, separated by commas: `sm_80` is machine code, `compute_75` is PTX.
    pub variants: &'static str,
    /// The device's architecture: 90 for sm_90.
    pub arch: u32,
    /// Why it could not be warmed.
    pub cause: Cause,
}

/// Why a kernel could not be warmed. All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Cause {
    /// It was built without an image.
    NoImage,
    /// The image has no variant that this device and driver can run.
    NoVariant {
        /// The driver's error.
        error: DriverCallError,
    },
    /// The image has PTX of a newer CUDA than the driver's, and no machine code for this device.
    NewPtx {
        /// The driver's error.
        error: DriverCallError,
        /// Major and minor version of the PTX.
        ptx: (u16, u16),
        /// The CUDA version that the driver supports.
        driver: CudaVersion,
    },
    /// The driver refused the image.
    Refused {
        /// The driver's error.
        error: DriverCallError,
        /// The log of the driver's compiler.
        log: String,
    },
    /// The image does not contain the kernel.
    NoEntry {
        /// The name that was looked up.
        symbol: &'static str,
    },
    /// There is not enough device memory.
    OutOfMemory {
        /// The driver's error.
        error: DriverCallError,
        /// Free device memory.
        free: u64,
    },
    /// Its stack would exceed the budget, because every thread of the device gets a stack of that size.
    StackBudget {
        /// The stack that a thread needs.
        stack: u64,
        /// The device memory that raising the stack limit would take.
        needed: u64,
        /// The device memory that it may take.
        budget: u64,
        /// Free device memory.
        free: u64,
    },
    /// A block needs more shared memory than the device grants.
    Shared {
        /// Its static shared memory.
        fixed: u32,
        /// The dynamic shared memory that the declaration asks for.
        dynamic: u32,
        /// The most that the device grants to a block.
        most: u32,
    },
    /// Loading it succeeded, but the driver says that it is not loaded.
    NotLoaded,
    /// It was warm, but its module has been unloaded since.
    Unloaded,
    /// Another driver call failed.
    Driver {
        /// The driver's error.
        error: DriverCallError,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` at {}, ", self.kernel, self.place)?;
        self.reason(f)
    }
}

impl Failure {
    /// The image and the cause.
    pub(super) fn reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { image, variants, arch, cause, .. } = self;
        if let Some(image) = image {
            write!(f, "image `{image}` on sm_{arch}: ")?;
        }
        write!(f, "{cause}")?;
        match cause {
            Cause::NoVariant { .. } if !variants.is_empty() => write!(
                f,
                "; it holds {}, and `Build::arch(\"sm_{arch}\")` adds machine code, `Build::ptx(\"compute_75\")` PTX that every newer \
                 device can take",
                variants.replace(',', ", ")
            ),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for HookFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HookFailure { path, place, cause } = self;
        write!(f, "warmup function `{path}` at {place}: {cause}")
    }
}

impl fmt::Display for HookCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HookCause::Returned { error } => f.write_str(error),
            HookCause::Setup { cause } => write!(f, "{cause}"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::NoImage => f.write_str(
                "built without image: there was no CUDA compiler when its crate was compiled; \
                 install one, or commit images made by `cargo kernels prebuild`, and rebuild",
            ),
            Cause::NoVariant { error } => write!(
                f,
                "{error}; the image holds nothing for this device and driver: compile it for this architecture or add \
                 PTX, with a CUDA toolkit no newer than the driver; or declare `arch = \">=..\"` if it is not meant for \
                 this device"
            ),
            Cause::NewPtx { error, ptx, driver } => {
                write!(f, "{error}; {}", ptx_version::sentence(*ptx, *driver))
            }
            Cause::Refused { error, log } if log.is_empty() => write!(f, "{error}; is the image damaged?"),
            Cause::Refused { error, log } => write!(f, "{error}; the driver's compiler says:\n{}", Printable(log)),
            Cause::NoEntry { symbol } => write!(
                f,
                "the image has no kernel `{symbol}` for this device; \
                 is it behind an `#if` on `__CUDA_ARCH__`, or was the image replaced after the build?"
            ),
            Cause::OutOfMemory { error, free } => write!(
                f,
                "{error}; {} are free: warm kernels before anything takes the device's memory for itself",
                Bytes(*free)
            ),
            Cause::StackBudget { stack, needed, budget, free } => write!(
                f,
                "its stack of {stack} bytes takes {} of device memory, because every thread of the device gets one; \
                 the budget is {}, and {} are free: raise the budget with `Warmup::stack_budget`, make frames \
                 smaller, or `skip` the kernel",
                Bytes(*needed),
                Bytes(*budget),
                Bytes(*free)
            ),
            Cause::Shared { fixed, dynamic, most } => write!(
                f,
                "a block needs {fixed} bytes of static and {dynamic} of dynamic shared memory, and this device grants {most}; \
                 declare less `shared`, or `arch = \">=..\"` if it is meant for larger devices"
            ),
            Cause::Unloaded => f.write_str(
                "it was warm, but its module has been unloaded, so its handle is invalid; call `warm_all` again, \
                 and do not unload modules that this library has loaded",
            ),
            Cause::NotLoaded => f.write_str(
                "loading it succeeded, but the driver says that it is not loaded; \
                 please report this with the driver's version and the device",
            ),
            Cause::Driver { error } => write!(f, "{error}"),
        }
    }
}

impl fmt::Display for WarmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WarmError::DriverUnavailable(error) => write!(f, "{error}"),
            WarmError::Registry(error) => write!(f, "{error}"),
            WarmError::Driver { error, about, log } => {
                if !about.is_empty() {
                    write!(f, "{about}: ")?;
                }
                write!(f, "{error}")?;
                if error.is(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
                    f.write_str(
                        "; the driver itself has no device memory left: warm kernels before anything else takes it",
                    )
                } else if error.is_sticky() {
                    Ok(())
                } else if log.is_empty() {
                    f.write_str("; no kernel was warmed; try again")
                } else {
                    write!(f, "; the driver's compiler says:\n{}", Printable(log))
                }
            }
            WarmError::InHook { hook } => write!(
                f,
                "the `#[warmup]` function `{hook}` warms the context that it runs in, and would wait for itself; the \
                 kernels that the warm-up selects are warm when the function runs, so select those that it launches"
            ),
            WarmError::HookTimedOut { hook, timeout } => write!(
                f,
                "the `#[warmup]` function `{hook}` has not returned within {:.1} s; allow more time with \
                 `Warmup::hook_timeout`",
                timeout.as_secs_f64()
            ),
            WarmError::LimitFrozen { limit, asked, size } => {
                let (what, user, method) = match limit {
                    SetLimit::PrintfFifo => ("printf buffer", "printf", "printf_fifo"),
                    SetLimit::Heap => ("kernels' heap", "malloc", "heap"),
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
                write!(f, "no thread could be started for driver calls: {reason}; no kernel was warmed")
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

/// The text has the causes, so there is no `source`.
impl std::error::Error for WarmError {}

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

    #[test]
    fn a_compilers_words_are_printable() {
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
