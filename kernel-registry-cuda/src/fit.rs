//! Whether a kernel fits beside a resident one: how many blocks of both run at once, and what limits it.
//!
//! Pure arithmetic on figures of the device and of both launches, so it needs no GPU. It errs on one side: what is said to
//! fit does run, whichever multiprocessors the hardware chooses, as long as it spreads the blocks of a grid evenly. What is
//! said not to fit may run in a few cases. All of it was measured on sm_90 only.
//!
//! - A resident grid is there as a whole, or its blocks wait for ever for those that are not: [`residency`].
//! - Another kernel runs beside it if some multiprocessor has room for a block of it: [`beside`].
//! - A multiprocessor divides its memory between shared memory and cache when it is empty, and keeps that *carve-out* while
//!   a block lives there. Other kernels wait if they [want](Launch::wanted_carveout) a larger one.
//!
//! ```
//! use kernel_registry_cuda::fit::{Device, Launch, Limit, beside, residency};
//!
//! let device = Device::of(90).unwrap();
//! // One block on every multiprocessor, and a kernel with 64 KiB of shared memory beside it.
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
