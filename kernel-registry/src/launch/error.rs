//! The error of a launch.

use std::error::Error;
use std::fmt;

use cudarc::driver::sys;

use super::parameter;
use crate::copies::{REMEDY, VERSION};
use crate::driver::{DriverCallError, DriverUnavailable};
use crate::linked;
use crate::sections::WouldWait;
use crate::{KernelInfo, OtherCopy, Param, WarmError};

/// Why a kernel was not launched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "`kernel` is the kernel, and the text of each variant says what the numbers are"
)]
pub enum LaunchError {
    /// The kernel is not warm in the stream's context.
    NotWarm { kernel: &'static KernelInfo },
    /// The kernel is not warm, because it was registered after the last warm-up.
    RegisteredLater { kernel: &'static KernelInfo },
    /// The kernel is registered with a copy of kernel-registry that has warmed nothing, and the program has other copies.
    OtherCopy { kernel: &'static KernelInfo, others: &'static [OtherCopy] },
    /// The device's architecture is lower than the architecture that the kernel's declaration asks for.
    Unavailable { kernel: &'static KernelInfo, min_arch: u32, arch: u32 },
    /// The context was reset after the kernel was warmed in it.
    Reset { kernel: &'static KernelInfo },
    /// The kernel's module was unloaded and loaded again after the launch was prepared.
    LoadedAnew { kernel: &'static KernelInfo },
    /// Neither the declaration nor the launch says how many threads a block has.
    BlockMissing { kernel: &'static KernelInfo },
    /// The configuration exceeds a limit of the kernel or device, or is 0 where at least 1 is needed.
    Limit { kernel: &'static KernelInfo, what: LaunchLimit, given: u64, most: u64 },
    /// The grid does not consist of whole clusters.
    GridOfClusters { kernel: &'static KernelInfo, grid: [u32; 3], cluster: [u32; 3] },
    /// The kernel was compiled for clusters of another size.
    ClusterFixed { kernel: &'static KernelInfo, chosen: [u32; 3], fixed: [u32; 3] },
    /// The kernel was compiled for clusters whose size the launch must set.
    ClusterMissing { kernel: &'static KernelInfo },
    /// A prepared launch was given a stream of another context.
    OtherContext { kernel: &'static KernelInfo },
    /// An argument is a `Mapped`, `Control` or `Queue` of another context than the stream's, so freeing it would not wait for the
    /// kernel.
    OtherMemory { kernel: &'static KernelInfo },
    /// A resident kernel was launched in another stream than the stream that its section was started with.
    OtherStream { kernel: &'static KernelInfo },
    /// The number of arguments is wrong.
    ArgumentCount { kernel: &'static KernelInfo, given: usize, takes: usize },
    /// The kernel's parameters are not known, because nvcc linked the kernel, and its image was not read.
    ParamsUnread { kernel: &'static KernelInfo },
    /// An argument does not fit its parameter.
    Argument {
        kernel: &'static KernelInfo,
        index: usize,
        param: Param<'static>,
        given: &'static str,
        size: u32,
    },
    /// The kernel was not warm, and could not be warmed late.
    Late { kernel: &'static KernelInfo, error: Box<WarmError> },
    /// The launch would wait for a resident kernel.
    WouldWait { kernel: &'static KernelInfo, wait: Box<WouldWait> },
    /// The driver is no longer usable: the process was forked.
    DriverUnavailable { kernel: &'static KernelInfo, error: DriverUnavailable },
    /// The driver refused the launch.
    Driver { kernel: &'static KernelInfo, error: DriverCallError },
}

/// Which number of a configuration is too large, or is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchLimit {
    /// Threads of a block along the axis `x`, `y` or `z`.
    BlockAxis(char),
    /// Blocks of the grid along the axis `x`, `y` or `z`.
    GridAxis(char),
    /// Threads of a block, all axes together.
    BlockThreads {
        /// The block.
        block: [u32; 3],
    },
    /// Bytes of dynamic shared memory of a block.
    DynamicShared,
}

impl LaunchError {
    /// Returns the kernel that was not launched.
    pub fn kernel(&self) -> &'static KernelInfo {
        match self {
            LaunchError::NotWarm { kernel }
            | LaunchError::RegisteredLater { kernel }
            | LaunchError::OtherCopy { kernel, .. }
            | LaunchError::Unavailable { kernel, .. }
            | LaunchError::Reset { kernel }
            | LaunchError::LoadedAnew { kernel }
            | LaunchError::BlockMissing { kernel }
            | LaunchError::Limit { kernel, .. }
            | LaunchError::GridOfClusters { kernel, .. }
            | LaunchError::ClusterFixed { kernel, .. }
            | LaunchError::ClusterMissing { kernel }
            | LaunchError::OtherContext { kernel }
            | LaunchError::OtherMemory { kernel }
            | LaunchError::OtherStream { kernel }
            | LaunchError::ArgumentCount { kernel, .. }
            | LaunchError::ParamsUnread { kernel }
            | LaunchError::Argument { kernel, .. }
            | LaunchError::Late { kernel, .. }
            | LaunchError::WouldWait { kernel, .. }
            | LaunchError::DriverUnavailable { kernel, .. }
            | LaunchError::Driver { kernel, .. } => kernel,
        }
    }
}

/// A size along three axes, written as `32 x 8 x 1`.
struct Size([u32; 3]);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "{x} x {y} x {z}")
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`: ", self.kernel().path())?;
        match *self {
            LaunchError::NotWarm { .. } => f.write_str(
                "it is not warm in the context of this stream; \
                 call `warm_all` with that context, and check that it does not skip this kernel",
            ),
            LaunchError::RegisteredLater { .. } => f.write_str(
                "it was registered after the last `warm_all`, because its library was loaded later; \
                 call `warm_all` again with the context of this stream",
            ),
            LaunchError::OtherCopy { others, .. } => {
                write!(
                    f,
                    "it is registered with kernel-registry {VERSION}, and the program also contains another copy (version "
                )?;
                for (index, other) in others.iter().enumerate() {
                    let and = if index == 0 { "" } else { " and " };
                    write!(f, "{and}{}", other.version)?;
                }
                write!(f, "), whose `warm_all` does not warm it; {REMEDY}")
            }
            LaunchError::Unavailable { min_arch, arch, .. } => {
                write!(
                    f,
                    "it asks for `arch = \">={min_arch}\"`, and this device has {arch}; launch another kernel on this device"
                )
            }
            LaunchError::Reset { .. } => f.write_str(
                "its context was reset after it was warmed; get the context again, and call `warm_all`",
            ),
            LaunchError::LoadedAnew { .. } => {
                f.write_str("it was loaded again after this launch was prepared; prepare the launch again")
            }
            LaunchError::BlockMissing { .. } => f.write_str(
                "the block size is not set; add `block = ..` to its declaration, or `.block(..)` to the launch",
            ),
            LaunchError::Limit { what, given, most, .. } => match what {
                LaunchLimit::BlockAxis(axis) => write!(
                    f,
                    "a block of {given} threads along its {axis} axis; a block has 1 to {most} there"
                ),
                LaunchLimit::GridAxis(axis) => write!(
                    f,
                    "a grid of {given} blocks along its {axis} axis; a grid has 1 to {most} there"
                ),
                LaunchLimit::BlockThreads { block } => write!(
                    f,
                    "a block of {} threads, {given} in all; its registers and launch bounds allow {most}, so choose a smaller block",
                    Size(block)
                ),
                LaunchLimit::DynamicShared => write!(
                    f,
                    "{given} bytes of dynamic shared memory; it was granted {most}; \
                     for more, add `shared = {given}` to its declaration"
                ),
            },
            LaunchError::GridOfClusters { grid, cluster, .. } => write!(
                f,
                "a grid of {} blocks; it has to consist of whole clusters of {}",
                Size(grid),
                Size(cluster)
            ),
            LaunchError::ClusterFixed { chosen, fixed, .. } => write!(
                f,
                "clusters of {} blocks; it was compiled for {}, so leave out `cluster(..)`",
                Size(chosen),
                Size(fixed)
            ),
            LaunchError::ClusterMissing { .. } => {
                f.write_str("it was compiled for clusters of any size; set one with `cluster(..)`")
            }
            LaunchError::OtherContext { .. } => f.write_str(
                "the launch was prepared for another context than this stream's; prepare one for each context",
            ),
            LaunchError::OtherMemory { .. } => f.write_str(
                "a `Mapped`, `Control` or `Queue` among its arguments is of another context than this stream's, and freeing it would \
                 not wait for the kernel; make one in this context, or pass its address and keep it until the kernel is done",
            ),
            LaunchError::OtherStream { .. } => f.write_str(
                "the resident kernel was launched in another stream than the one that was given to `Checked::launch`; launch it in that one",
            ),
            LaunchError::ArgumentCount { given, takes, .. } => {
                write!(f, "it takes {takes} arguments, and {given} were given")
            }
            LaunchError::ParamsUnread { .. } => f.write_str(linked::UNREAD),
            LaunchError::Argument { index, ref param, given, size, .. } => {
                write!(f, "argument {index} is {given}")?;
                if size > 0 {
                    write!(f, " of {size} bytes")?;
                }
                if parameter::is_unknown(param) {
                    return write!(f, ", and `{}: {}` takes a pointer, a slice or 8 bytes", param.name, param.ty);
                }
                let takes = parameter::describe(param.pass);
                write!(f, ", and `{}: {}` takes {takes} of {}", param.name, param.ty, param.element_size)
            }
            LaunchError::Late { .. } => f.write_str("it was not warm, and could not be warmed late"),
            LaunchError::WouldWait { ref wait, .. } => write!(f, "it was not launched beside `{}`", wait.resident),
            LaunchError::DriverUnavailable { .. } => f.write_str("there is no usable driver"),
            LaunchError::Driver { error, .. } => {
                f.write_str(&error.in_short())?;
                f.write_str(match error {
                    _ if error.is(sys::CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE) => {
                        ": a cooperative launch needs room for all of its blocks at once; launch fewer or smaller ones, \
                         `cargo kernels fit` computes how many fit"
                    }
                    _ if error.is(sys::CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE) => {
                        ": its clusters are too large; every device that has clusters has room for those of 8 blocks"
                    }
                    _ => "",
                })
            }
        }
    }
}

impl Error for LaunchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            LaunchError::Late { error, .. } => Some(&**error),
            LaunchError::WouldWait { wait, .. } => Some(&**wait),
            LaunchError::DriverUnavailable { error, .. } => Some(error),
            LaunchError::Driver { error, .. } => Some(error),
            _ => None,
        }
    }
}
