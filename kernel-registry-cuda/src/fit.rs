//! Computes whether a kernel fits beside a resident one: how many blocks of both run at once, and what limits the
//! number.
//!
//! This is arithmetic on figures of the device and of both launches, so no GPU is needed. A kernel that is found to fit
//! does run, whichever multiprocessors the hardware chooses, as long as the hardware spreads the blocks of a grid
//! evenly. A few kernels that are found not to fit run nevertheless. All of this was measured on sm_90 only.
//!
//! - All blocks of a resident grid must be on the device at once, or the blocks that are there wait for ever for the
//!   others: [`residency`].
//! - Another kernel runs beside the grid if some multiprocessor has room for one of its blocks: [`beside`].
//! - An empty multiprocessor divides its memory between shared memory and cache for its first block, and keeps that
//!   *carve-out* while any block is on it. A kernel that [wants](Launch::wanted_carveout) a larger carve-out waits.
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
