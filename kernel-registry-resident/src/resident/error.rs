//! Defines the errors of launching and ending a resident kernel.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use kernel_registry::{DriverCallError, DriverUnavailable, LaunchError, RecheckError};
use kernel_registry_cuda::fit::{CannotRun, Limit};

use super::Fit;
use crate::control::Ended;

/// Why a resident kernel was not launched.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "`kernel` is the kernel that should be resident, and the text of each variant says what the numbers are"
)]
pub enum ResidentError {
    /// The kernel, or one that runs alongside, is no longer warm, or this couldn't be checked.
    NotWarm { kernel: &'static str, error: RecheckError },
    /// Another thread loads kernels in the context, or frees memory there.
    Busy { kernel: &'static str },
    /// The closure that should launch the kernel didn't.
    NotLaunched { kernel: &'static str },
    /// The kernel, or one that runs alongside, can't be launched with this configuration.
    Launch(LaunchError),
    /// Not all blocks of the kernel fit on the device at once.
    GridTooLarge { kernel: &'static str, grid: u64, capacity: u64, limit: Limit, beside: Vec<&'static str> },
    /// Kernels that have to run alongside don't fit. [`Fit::refusals`] returns the reasons.
    NoRoom { kernel: &'static str, fit: Box<Fit> },
    /// A launch of the kernel `of` may wait for a larger stack, because its calls are recursive.
    UnknownStack { kernel: &'static str, of: &'static str },
    /// The device cannot run even one block of this kernel.
    CannotRun { kernel: &'static str, why: CannotRun },
    /// A parameter takes a slice of cudarc, which cudarc doesn't release before the kernel has ended.
    TrackedSlice { kernel: &'static str, param: &'static str, ty: &'static str },
    /// The stream and the default stream wait for each other.
    BlockingStream { kernel: &'static str },
    /// The stream is being captured, so that the graph would launch the kernel again without a section.
    Captured { kernel: &'static str },
    /// `CUDA_LAUNCH_BLOCKING` is set, so the launch would only return when the kernel has ended.
    LaunchBlocking { kernel: &'static str },
    /// The stream belongs to another context than the receipt.
    OtherContext { kernel: &'static str },
    /// The stream belongs to another part of the device than the part that was checked.
    OtherPart { kernel: &'static str },
    /// The device's resources are unknown, because its architecture is newer than this library.
    UnknownDevice { kernel: &'static str, arch: u32 },
    /// The driver is unusable, or has no mapped memory left for the control block.
    DriverUnavailable { kernel: &'static str, error: DriverUnavailable },
    /// A driver call failed.
    Driver { kernel: &'static str, error: DriverCallError },
}

/// How many reasons are printed. The others are only counted.
const PRINTED: usize = 8;

impl fmt::Display for ResidentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResidentError::NotWarm { kernel, .. } => {
                write!(f, "kernel `{kernel}` cannot be resident: it is not certain that it is still warm")
            }
            ResidentError::Busy { kernel } => write!(
                f,
                "kernel `{kernel}` was not launched: another thread loads kernels in its context, or frees memory there; wait for \
                 that, then try again"
            ),
            ResidentError::NotLaunched { kernel } => write!(
                f,
                "kernel `{kernel}` was not launched: the function passed to `Checked::launch` has to launch it, with its argument \
                 as the configuration"
            ),
            ResidentError::Launch(error) => write!(f, "{error}"),
            ResidentError::GridTooLarge { kernel, grid, capacity, limit, beside } => {
                write!(f, "kernel `{kernel}` cannot be resident: ")?;
                if !beside.is_empty() {
                    write!(f, "next to {} ", counted(beside).join(" and "))?;
                }
                write!(
                    f,
                    "{capacity} of its {grid} blocks run at once, limited by {limit}, and the others start when these end; "
                )?;
                match capacity {
                    0 if *limit == Limit::Carveout => {
                        f.write_str("launch the resident ones with `Resident::carveout(100)`")
                    }
                    0 => f.write_str("use smaller blocks, or fewer resident ones"),
                    _ => write!(f, "use {capacity} blocks at most"),
                }
            }
            ResidentError::NoRoom { kernel, fit } => {
                write!(f, "kernel `{kernel}` cannot be resident:")?;
                let count = fit.refusals().count();
                fit.refusals().take(PRINTED).try_for_each(|refusal| write!(f, "\n  {refusal}"))?;
                match count.saturating_sub(PRINTED) {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            ResidentError::UnknownStack { kernel, of } => write!(
                f,
                "kernel `{kernel}` cannot be resident: a launch of `{of}` waits if its recursive calls need more stack \
                 than there is; add `stack = ..` to its declaration"
            ),
            ResidentError::CannotRun { kernel, .. } => {
                write!(f, "kernel `{kernel}` cannot run on this device")
            }
            ResidentError::TrackedSlice { kernel, param, ty } => write!(
                f,
                "kernel `{kernel}` cannot be resident: its parameter `{param}: {ty}` takes a slice of cudarc, and whoever uses or \
                 frees that slice later waits until the kernel has ended; declare the parameter as a pointer"
            ),
            ResidentError::BlockingStream { kernel } => write!(
                f,
                "kernel `{kernel}` cannot be resident in this stream: the stream and the default stream wait for each other, as synchronous \
                 copies do; use one of `CudaContext::new_stream`"
            ),
            ResidentError::Captured { kernel } => write!(
                f,
                "kernel `{kernel}` cannot be resident in this stream, which is being captured: a graph launches its kernels later, and again; \
                 use another stream"
            ),
            ResidentError::LaunchBlocking { kernel } => write!(
                f,
                "kernel `{kernel}` cannot be resident: `CUDA_LAUNCH_BLOCKING` is set, so its launch would not return; unset it"
            ),
            ResidentError::OtherContext { kernel } => write!(
                f,
                "kernel `{kernel}`: the stream belongs to another context than the receipt; warm the kernels in the stream's \
                 context"
            ),
            ResidentError::OtherPart { kernel } => write!(
                f,
                "kernel `{kernel}`: the stream belongs to another part of the device than was checked; name the part with \
                 `Resident::within`, and take one of its streams"
            ),
            ResidentError::UnknownDevice { kernel, arch } => write!(
                f,
                "kernel `{kernel}`: this version does not know what a device of sm_{arch} has room for; use a newer version"
            ),
            ResidentError::DriverUnavailable { kernel, .. } => {
                write!(f, "kernel `{kernel}` was not launched")
            }
            ResidentError::Driver { kernel, error } => {
                write!(f, "kernel `{kernel}` was not launched, because {}", error.in_short())
            }
        }
    }
}

/// Returns each kernel once, with the number of its grids: `2 x` and the kernel's path.
fn counted(kernels: &[&'static str]) -> Vec<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for kernel in kernels {
        match counts.iter_mut().find(|(counted, _)| counted == kernel) {
            Some((_, count)) => *count += 1,
            None => counts.push((kernel, 1)),
        }
    }
    let named =
        |(kernel, count)| if count == 1 { format!("`{kernel}`") } else { format!("{count} x `{kernel}`") };
    counts.into_iter().map(named).collect()
}

/// A variant that only wraps another error has that error's text and source.
impl Error for ResidentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ResidentError::NotWarm { error, .. } => Some(error),
            ResidentError::Launch(error) => error.source(),
            ResidentError::CannotRun { why, .. } => Some(why),
            ResidentError::DriverUnavailable { error, .. } => Some(error),
            ResidentError::Driver { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<LaunchError> for ResidentError {
    fn from(error: LaunchError) -> Self {
        ResidentError::Launch(error)
    }
}

/// Why a section didn't end cleanly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "`kernel` is the resident kernel")]
pub enum SectionError {
    /// The kernel still runs. Until it ends, calls that would wait for it are still refused.
    StillRuns { kernel: &'static str, waited: Duration },
    /// The kernel has ended with an error: blocks were missing, or host and kernel disagree on the layout of
    /// their memory.
    Ended { kernel: &'static str, why: Ended },
    /// The context was reset, which ended the kernel.
    Reset { kernel: &'static str },
    /// The kernel failed, or a driver call failed.
    Driver { kernel: &'static str, error: DriverCallError },
}

impl fmt::Display for SectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SectionError::StillRuns { kernel, waited } => write!(
                f,
                "kernel `{kernel}` still runs {:.1} s after it was told to end; let its loops look at the stop flag, or give it more \
                 time with `Resident::stop_within`",
                waited.as_secs_f64()
            ),
            SectionError::Ended { kernel, why } => write!(f, "kernel `{kernel}` has ended: {why}"),
            SectionError::Reset { kernel } => write!(
                f,
                "kernel `{kernel}` is gone, because its context was reset; end the section before that"
            ),
            SectionError::Driver { kernel, .. } => {
                write!(f, "kernel `{kernel}` failed, or the driver does not answer")
            }
        }
    }
}

impl Error for SectionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SectionError::Driver { error, .. } => Some(error),
            _ => None,
        }
    }
}
