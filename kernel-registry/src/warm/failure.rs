//! Defines the failures in a warm-up: of one kernel, or of one `#[warmup]` function.

use std::fmt;

use kernel_registry_format::Printable;

use super::plan::Planned;
use super::ptx_version;
use super::words::Bytes;
use crate::driver::{CudaVersion, DriverCallError};
use crate::linked::{self, NotJoined};
use crate::place::Place;

/// A `#[warmup]` function that failed. The context's next warm-up runs it again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct HookFailure {
    /// The function's path.
    pub path: &'static str,
    /// Where the function is declared.
    pub place: Place,
    /// Why the function failed.
    pub cause: HookCause,
}

/// Why a `#[warmup]` function failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum HookCause {
    /// The function returned an error.
    Returned {
        /// The text of the error and of its sources.
        error: String,
    },
    /// The context could not be set up for the function, or for the kernels that it loaded.
    Setup {
        /// Why setting up failed.
        cause: Cause,
    },
}

/// A kernel that could not be warmed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Failure {
    /// The kernel's path.
    pub kernel: &'static str,
    /// Where the kernel is declared.
    pub place: Place,
    /// The kernel's image, if it has one.
    pub image: Option<&'static str>,
    /// The image's variants, separated by commas: `sm_80` is machine code, `compute_75` is PTX.
    pub variants: &'static str,
    /// The device's architecture: 90 for sm_90.
    pub arch: u32,
    /// Why the kernel could not be warmed.
    pub cause: Cause,
}

/// Why a kernel could not be warmed. All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Cause {
    /// The kernel was built without an image.
    NoImage,
    /// The kernel is declared `linked`, and nvcc linked no kernel of this name, or several.
    NotLinked {
        /// The name that was looked up.
        symbol: &'static str,
        /// How many linked kernels have this name.
        count: usize,
    },
    /// The kernel is declared `linked`, and the kernel that nvcc linked takes other parameters.
    OtherParams {
        /// The signature of the kernel that nvcc linked.
        linked: String,
    },
    /// The kernel is declared `linked`, and the parameters of the kernel that nvcc linked are not known: the feature `linked` of
    /// kernel-registry is off, or the image could not be read.
    ParamsUnread,
    /// The image has no variant that this device and driver can run.
    NoVariant {
        /// The driver's error.
        error: DriverCallError,
    },
    /// The image has PTX of a CUDA version that is newer than the driver's, and no machine code for this device.
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
    /// Raising the stack limit for the kernel would exceed the budget: every thread that the device can run gets such a stack.
    StackBudget {
        /// The stack that a thread needs.
        stack: u64,
        /// The device memory that raising the stack limit would take.
        needed: u64,
        /// The device memory that larger stacks may take.
        budget: u64,
        /// Free device memory.
        free: u64,
    },
    /// A block needs more shared memory than the device grants.
    Shared {
        /// The kernel's static shared memory.
        fixed: u32,
        /// The dynamic shared memory that the declaration asks for.
        dynamic: u32,
        /// The most that the device grants to a block.
        most: u32,
    },
    /// Loading the kernel succeeded, but the driver reports that it is not loaded.
    NotLoaded,
    /// The kernel was warm, but its module has been unloaded since.
    Unloaded,
    /// Another driver call failed.
    Driver {
        /// The driver's error.
        error: DriverCallError,
    },
}

impl Cause {
    pub(super) fn not_linked(planned: &Planned, problem: &NotJoined) -> Self {
        match problem {
            NotJoined::Named(count) => Cause::NotLinked { symbol: planned.kernel.symbol, count: *count },
            NotJoined::Params { linked } => Cause::OtherParams { linked: linked.clone() },
            NotJoined::Unread => Cause::ParamsUnread,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` at {}, ", self.kernel, self.place)?;
        self.write_reason(f)
    }
}

impl Failure {
    /// Writes the image and the cause.
    pub(super) fn write_reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            Cause::NotLinked { symbol, count: 0 } => write!(
                f,
                "nvcc linked no kernel `{symbol}` into this program: call `kernel_registry_build::linked()` in its build script, \
                 or name the kernel's symbol by `name = \"..\"`, as `cargo kernels list` shows it"
            ),
            Cause::NotLinked { symbol, count } => write!(
                f,
                "nvcc linked {count} kernels `{symbol}`: name the symbol of one by `name = \"..\"`, as `cargo kernels list` shows it"
            ),
            Cause::OtherParams { linked } => {
                write!(f, "the kernel that nvcc linked is `{}`: declare parameters of these sizes", Printable(linked))
            }
            Cause::ParamsUnread => f.write_str(linked::UNREAD),
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
