//! Checks resident kernels before their launch, and guards them while they run. For programs that declare
//! their kernels with kernel-registry.
//!
//! A resident kernel runs until it's told to end, such as a worker that takes tasks from a queue. Programs
//! launch such a kernel as a [`Resident`]. Before the launch, [`Resident::check`] finds out whether all of
//! its blocks fit on the device at once, together with a block of each kernel that has to run alongside. The
//! launch returns a [`Section`]. While the section exists, calls that would wait for the kernel are refused:
//!
//! ```no_run
//! # mod demo {
//! use kernel_registry::{KernelParam, gpu_kernel};
//! use kernel_registry_resident::{Control, Queue};
//!
//! #[derive(Clone, Copy, KernelParam)]
//! #[repr(C)]
//! pub struct Task {
//!     pub x: *const f32,
//!     pub n: u32,
//! }
//!
//! #[gpu_kernel(image = "tests/images/resident.ptx")]
//! pub unsafe fn consumer(control: *mut Control, queue: *mut Queue<Task>);
//! # #[gpu_kernel(image = "tests/images/saxpy.ptx", block = 256)]
//! # pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
//! # }
//! # use demo::{Task, consumer, saxpy};
//! use std::time::Duration;
//! # use kernel_registry_resident::Queue;
//! use kernel_registry_resident::Resident;
//!
//! # fn main() -> Result<(), kernel_registry::MainError> {
//! let context = kernel_registry::context(0)?;
//! let warm = kernel_registry::warm_all(&context)?;
//! let mut queue = Queue::<Task>::for_blocks(&context, 66, 2)?;
//!
//! let resident = Resident::<consumer>::new(consumer::config(66).block(128)).beside(saxpy::INFO, saxpy::over(1000));
//! let resident = resident.check(&warm)?;
//! println!("{}", resident.fit());
//! let stream = context.new_stream()?;
//! // SAFETY: the queue's memory is freed only when no resident kernel is left.
//! let section = resident.launch(&stream, |launch| unsafe { consumer::launch(&stream, launch, launch.control(), &queue) })?;
//! section.wait_for_blocks(Duration::from_secs(1))?;
//! queue.push(Task { x: std::ptr::null(), n: 0 })?;
//! // Launch `saxpy` in other streams, copy memory ..
//! section.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! `docs/resident.md` explains how to write such a kernel.
//!
//! The kernel's CUDA source includes `kernel_registry.cuh` ([`DEVICE_HEADER`]), which kernel-registry-build
//! puts on the include path. [`Control`] ends the kernel and reports whether all of its blocks are on the
//! device. A [`Queue`] passes work to the kernel. [`Mapped`] is memory that host and kernel both access. A
//! [`Partition`] splits the device into parts.
//!
//! # Not settled
//!
//! This is the newest part of kernel-registry: any version of this crate may change or remove any item.
//! kernel-registry does not depend on this crate.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod control;
mod driver;
mod mapped;
mod partition;
mod queue;
mod resident;
mod sections;

pub use control::{BlocksMissing, Control, Ended, Presence};
pub use kernel_registry::WouldWait;
pub use kernel_registry_cuda::OnWait;
pub use kernel_registry_cuda::fit::{CannotRun, Limit, Shortage};
pub use mapped::Mapped;
pub use partition::{Part, Partition, PartitionError};
pub use queue::{Pushed, Queue, QueueFull, QueueUnfinished};
pub use resident::{Checked, Companion, Fit, Resident, ResidentError, Section, SectionError, Starting};

/// The text of `kernel_registry.cuh`, the header for CUDA sources of resident kernels.
///
/// Sources that kernel-registry-build compiles include the header without any preparation. If you call a
/// compiler yourself, pass the text to NVRTC as a header of this name, or write it to a file on the include
/// path.
pub const DEVICE_HEADER: &str = kernel_registry_cuda::device_header::TEXT;
