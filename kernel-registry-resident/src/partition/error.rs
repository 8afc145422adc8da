//! Defines the error of splitting a device.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use kernel_registry::{CudaVersion, DriverCallError, DriverUnavailable, WouldWait};

use super::sizes::describe;

/// Why a device was not split into parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionError {
    /// The driver is missing or unusable.
    DriverUnavailable(DriverUnavailable),
    /// The driver has no green contexts.
    TooOld {
        /// The newest CUDA that the driver supports.
        driver: CudaVersion,
    },
    /// The driver has no green contexts on this device.
    Unsupported {
        /// The number of the device.
        device: usize,
    },
    /// The context isn't the primary context of its device. Only that one can be split.
    NotPrimary,
    /// The sizes are wrong: there is no size, a size of 0, or more than one `REST`.
    Sizes {
        /// The requested sizes.
        sizes: Vec<u32>,
    },
    /// The device has too few multiprocessors.
    TooFew {
        /// The requested sizes.
        sizes: Vec<u32>,
        /// The size of the driver's groups. A part consists of whole groups.
        group: u32,
        /// How many groups of that size the device has.
        groups: u32,
        /// How many multiprocessors the device has.
        has: u32,
    },
    /// A resident kernel is on the device, and splitting would wait for it.
    WouldWait(Box<WouldWait>),
    /// `cuGreenCtxCreate` did not return in time, because it waits for running kernels.
    Waiting {
        /// How long the call has waited.
        timeout: Duration,
    },
    /// The operating system could not start a thread.
    NoThread {
        /// The operating system's reason.
        reason: String,
    },
    /// Another driver call failed.
    Driver(DriverCallError),
}

impl From<DriverCallError> for PartitionError {
    fn from(error: DriverCallError) -> Self {
        PartitionError::Driver(error)
    }
}

impl From<DriverUnavailable> for PartitionError {
    fn from(error: DriverUnavailable) -> Self {
        PartitionError::DriverUnavailable(error)
    }
}

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartitionError::DriverUnavailable(error) => write!(f, "{error}"),
            PartitionError::TooOld { driver } => write!(
                f,
                "the driver supports CUDA {driver}, and a GPU is split with functions of CUDA 12.4; \
                 install a driver of the 550 series or newer, or launch fewer blocks, to leave room for other kernels"
            ),
            PartitionError::Unsupported { device } => write!(
                f,
                "the driver cannot split device {device}; \
                 launch fewer blocks, to leave room for other kernels"
            ),
            PartitionError::NotPrimary => f.write_str(
                "only the primary context of a device can be split; pass the context of `kernel_registry::context`",
            ),
            PartitionError::Sizes { sizes } => {
                write!(
                    f,
                    "{} are not sizes of parts; ask for at least one part of a size above 0, and at most one \
                     `Partition::REST`",
                    describe(sizes)
                )
            }
            PartitionError::TooFew { sizes, group, groups, has } => write!(
                f,
                "parts of {} multiprocessors do not fit: each takes whole groups of {group}, and the device's {has} make \
                 {groups} of them; ask for fewer",
                describe(sizes)
            ),
            PartitionError::WouldWait(wait) => write!(f, "{wait}"),
            PartitionError::Waiting { timeout } => write!(
                f,
                "`cuGreenCtxCreate` has waited for {:.1} s, because a part is made only when nothing runs on the device; \
                 split it before a resident kernel starts",
                timeout.as_secs_f64()
            ),
            PartitionError::NoThread { reason } => {
                write!(f, "no thread could be started for driver calls: {reason}")
            }
            PartitionError::Driver(error) => {
                write!(f, "the device was not split, because {}", error.in_short())
            }
        }
    }
}

/// A variant that only wraps another error has that error's text and source.
impl Error for PartitionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PartitionError::DriverUnavailable(error) => error.source(),
            PartitionError::WouldWait(wait) => wait.source(),
            PartitionError::Driver(error) => Some(error),
            _ => None,
        }
    }
}
