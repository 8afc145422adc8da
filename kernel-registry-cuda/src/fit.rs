//! Computes whether a kernel fits next to a resident one: how many blocks of both run at once, and what
//! limits them.
//!
//! This is arithmetic on figures of the device and both launches, so no GPU is needed. A kernel that fits by
//! this arithmetic does run, whichever multiprocessors the hardware chooses, as long as it spreads a grid's
//! blocks evenly. A few kernels run although they don't fit. All of this was only measured on sm_90.
//!
//! - All blocks of a resident grid must be on the device at once, or the blocks that arrived would wait for
//!   the others forever: [`residency`].
//! - Another kernel runs alongside the grid if some multiprocessor has room for one of its blocks:
//!   [`beside`].
//! - An empty multiprocessor divides its memory between shared memory and cache for its first block, and
//!   keeps that *carve-out* while any block is on it. A kernel that [wants](Launch::wanted_carveout) a larger
//!   carve-out waits.
//!
//! ```
//! use kernel_registry_cuda::fit::{Device, Launch, Limit, beside, residency};
//!
//! let device = Device::of(90).unwrap();
//! // The resident kernel has one block on every multiprocessor. The other kernel needs 64 KiB of shared memory.
//! let resident = Launch { grid: 132, threads: 256, registers: 40, ..Launch::default() };
//! let other = Launch { grid: 1, threads: 256, registers: 32, static_shared: 64 << 10, ..Launch::default() };
//!
//! assert!(residency(device, &resident)?.fits());
//! let room = beside(device, &resident, &other)?;
//! assert!(!room.fits());
//! assert_eq!(room.limit, Limit::Carveout);
//! let carved = Launch { carveout: Some(100), ..resident };
//! assert_eq!(beside(device, &carved, &other)?.per_processor, 3);
//! # Ok::<(), kernel_registry_cuda::fit::CannotRun>(())
//! ```

mod device;
mod grid;
mod launch;
mod processor;
mod product;
mod residents;
mod shortage;

pub use device::Device;
pub use grid::{Residency, Room, beside, residency};
pub use launch::{CannotRun, Launch};
pub use processor::{Limit, Processor, Space};
pub use product::Product;
pub use residents::Residents;
pub use shortage::Shortage;
