//! What went wrong when kernels were warmed.

use std::fmt;
use std::time::Duration;

use cudarc::driver::sys::CUresult;

use super::report::{Bytes, Count, Report};
use crate::driver::{DriverError, NoDriver};
use crate::{Error, Place};

/// Why kernels are not warm.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarmError {
    /// There is no driver to work with.
    NoDriver(NoDriver),
    /// The registry has no answer.
    Registry(Error),
    /// The driver refuses to work with the context, or with the kernels of this library itself.
    Driver {
        /// What it said.
        error: DriverError,
        /// What the call is about, or nothing.
        about: &'static str,
        /// What its compiler wrote, if that was at work.
        log: String,
    },
    /// A function with `#[warmup]` warms the context that is being warmed.
    InHook {
        /// Its path.
        hook: &'static str,
    },
    /// A function with `#[warmup]` has not returned. A thread of its own still runs it.
    HookTimedOut {
        /// Its path.
        hook: &'static str,
        /// How long it has run.
        limit: Duration,
    },
    /// The printf buffer or the heap is to be larger, and the driver has set it up already.
    LimitFrozen {
        /// Which of them.
        limit: SetLimit,
        /// The bytes that were asked for.
        asked: u64,
        /// The bytes that it has.
        size: u64,
    },
    /// The system does not start a thread.
    NoThread {
        /// What it said.
        reason: String,
    },
    /// A call waits for the device, which something keeps busy.
    GaveUp {
        /// The call. A thread of its own still waits for it.
        call: &'static str,
        /// The kernel or image that it is about, or nothing.
        about: &'static str,
        /// How long it has waited.
        patience: Duration,
    },
    /// Some kernels could not be warmed. The others are warm.
    Kernels {
        /// What was done, with every failure in it.
        report: Box<Report>,
    },
}

/// What the driver keeps for kernels in a context, and sets up at the first launch of one that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetLimit {
    /// The buffer of `printf`.
    PrintfFifo,
    /// The heap of `malloc` and `new`.
    Heap,
}

/// A kernel that could not be warmed, or a function with `#[warmup]` that failed.
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
    /// What is in the image, with commas between: `sm_80` is machine code, `compute_75` is PTX.
    pub variants: &'static str,
    /// The device's architecture: 90 for sm_90.
    pub arch: u32,
    /// What is wrong.
    pub cause: Cause,
}

/// Why a kernel could not be warmed. All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Cause {
    /// It was compiled into the program without an image.
    NoImage,
    /// The image holds nothing that this device and driver can run.
    NoVariant {
        /// What the driver said.
        error: DriverError,
    },
    /// The driver refused the image.
    Refused {
        /// What it said.
        error: DriverError,
        /// What its compiler wrote.
        log: String,
    },
    /// The image has no such kernel.
    NoEntry {
        /// The name that was looked for.
        symbol: &'static str,
    },
    /// There is not enough memory for it.
    OutOfMemory {
        /// What the driver said.
        error: DriverError,
        /// How much is free.
        free: u64,
    },
    /// Its stack would take more memory than it may, because every thread of the device gets one as large.
    StackBudget {
        /// The stack that a thread of it needs.
        stack: u64,
        /// What raising the limit for it would take.
        needed: u64,
        /// What it may take.
        budget: u64,
        /// What is free.
        free: u64,
    },
    /// A block of it needs more shared memory than the device has.
    Shared {
        /// What is known at compile time.
        fixed: u32,
        /// What the declaration asks for.
        dynamic: u32,
        /// What the device grants to a block.
        most: u32,
    },
    /// The driver says that it is not loaded, after everything was done to load it.
    NotLoaded,
    /// It was warm, and its module was unloaded since.
    Unloaded,
    /// It is no kernel, but a function with `#[warmup]` that failed.
    Hook {
        /// Its error.
        error: String,
    },
    /// Another call failed.
    Driver {
        /// What the driver said.
        error: DriverError,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { kernel, place, image, variants, arch, cause } = self;
        let what = if matches!(cause, Cause::Hook { .. }) { "warmup function" } else { "kernel" };
        write!(f, "{what} `{kernel}` at {place}, ")?;
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

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::NoImage => f.write_str(
                "built without image: there was no CUDA compiler when its crate was compiled; \
                 install one, or commit prebuilt images, and build it again",
            ),
            Cause::NoVariant { error } => write!(
                f,
                "{error}; the image holds nothing for this device and driver: compile it for this architecture or add \
                 PTX, with the oldest toolkit that serves; or declare `arch = \">=..\"`, if it is not meant for it"
            ),
            Cause::Refused { error, log } if log.is_empty() => write!(f, "{error}; is the image whole?"),
            Cause::Refused { error, log } => write!(f, "{error}; the driver's compiler says:\n{log}"),
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
                "its stack of {stack} bytes takes {} of device memory, because every thread of the device gets such a \
                 stack; the budget is {}, and {} are free: raise it with `Warmup::stack_budget`, make frames \
                 smaller, or `skip` the kernel",
                Bytes(*needed),
                Bytes(*budget),
                Bytes(*free)
            ),
            Cause::Shared { fixed, dynamic, most } => write!(
                f,
                "a block needs {fixed} bytes of shared memory and {dynamic} declared ones, and this device grants {most}; \
                 declare less `shared`, or `arch = \">=..\"`, if it is meant for larger devices"
            ),
            Cause::Hook { error } => f.write_str(error),
            Cause::Unloaded => f.write_str(
                "it was warm, and its module was unloaded since, which ends its handle; call `warm_all` again, \
                 and unload no module that this library has loaded",
            ),
            Cause::NotLoaded => f.write_str(
                "the driver says that it is not loaded, after it was asked to load it; \
                 please report this with the versions of driver and device",
            ),
            Cause::Driver { error } => write!(f, "{error}"),
        }
    }
}

impl fmt::Display for WarmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WarmError::NoDriver(error) => write!(f, "{error}"),
            WarmError::Registry(error) => write!(f, "{error}"),
            WarmError::Driver { error, about, log } => {
                if !about.is_empty() {
                    write!(f, "{about}: ")?;
                }
                write!(f, "{error}")?;
                if error.is(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
                    f.write_str(
                        "; there is no device memory left for the driver itself: warm kernels before anything takes it",
                    )
                } else if error.is_sticky() {
                    Ok(())
                } else if log.is_empty() {
                    f.write_str("; no kernel was warmed, and it can be tried again")
                } else {
                    write!(f, "; the driver's compiler says:\n{log}")
                }
            }
            WarmError::InHook { hook } => write!(
                f,
                "the function `{hook}` with `#[warmup]` warms the context that is being warmed, which would wait for \
                 itself; kernels that the warm-up selects are warm when the function runs: select those that it \
                 launches, too"
            ),
            WarmError::HookTimedOut { hook, limit } => write!(
                f,
                "the function `{hook}` with `#[warmup]` has not returned within {:.1} s; if it needs longer, say so with \
                 `Warmup::hook_timeout`",
                limit.as_secs_f64()
            ),
            WarmError::LimitFrozen { limit, asked, size } => {
                let (what, user, method) = match limit {
                    SetLimit::PrintfFifo => ("printf buffer", "printf", "printf_fifo"),
                    SetLimit::Heap => ("heap of kernels", "malloc", "heap"),
                };
                write!(
                    f,
                    "the {what} has {}, and `Warmup::{method}` asks for {}: the driver fixes its size when a kernel with \
                     {user} is launched, which the first warm-up of a context does; ask in that one, before anything \
                     is launched",
                    Bytes(*size),
                    Bytes(*asked)
                )
            }
            WarmError::NoThread { reason } => {
                write!(f, "no thread could be started to call the driver in: {reason}; no kernel was warmed")
            }
            WarmError::GaveUp { call, about, patience } => {
                write!(f, "`{call}` ")?;
                if !about.is_empty() {
                    write!(f, "for {about} ")?;
                }
                write!(
                    f,
                    "has waited for {:.1} s: something keeps the device busy; warm kernels before launching one that \
                     stays, or allow more time with `Warmup::patience`",
                    patience.as_secs_f64()
                )
            }
            WarmError::Kernels { report } => {
                let is_hook = |failure: &&Failure| matches!(failure.cause, Cause::Hook { .. });
                let hooks = report.failures.iter().filter(is_hook).count();
                let (failed, warm) = (report.failures.len() - hooks, report.kernels.len());
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
                report.failures.iter().try_for_each(|failure| write!(f, "\n  {failure}"))
            }
        }
    }
}

impl std::error::Error for WarmError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WarmError::NoDriver(error) => Some(error),
            WarmError::Registry(error) => Some(error),
            WarmError::Driver { error, .. } => Some(error),
            _ => None,
        }
    }
}

readable!(WarmError);

impl From<NoDriver> for WarmError {
    fn from(error: NoDriver) -> Self {
        WarmError::NoDriver(error)
    }
}

impl From<Error> for WarmError {
    fn from(error: Error) -> Self {
        WarmError::Registry(error)
    }
}

impl From<DriverError> for WarmError {
    fn from(error: DriverError) -> Self {
        WarmError::Driver { error, about: "", log: String::new() }
    }
}
