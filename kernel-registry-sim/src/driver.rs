//! Simulates the CUDA driver.
//!
//! `calls` has the driver's functions under their real names. `caller` reads their arguments, and `hooks` run around
//! each call. A function locks the `state`, which holds the objects that `memory`, `load`, `launch`, `stream` and `graph`
//! define. A worker thread (`state/worker.rs`) does the work of all streams. `report` writes what kernels print, and why
//! contexts have failed. Programs and tests reach the simulator itself through `control`.
//!
//! Imports are acyclic: no two files or folders import each other, directly or through others.

mod caller;
mod calls;
mod clock;
mod config;
mod control;
mod graph;
mod handles;
mod hooks;
mod launch;
mod load;
mod memory;
mod names;
mod report;
mod result;
mod state;
mod stream;
mod wait;
mod watched;

pub use calls::functions;
pub use config::device::Device;
pub use config::faults::{Fault, FaultError};
pub use config::{Config, Deadlock};
pub use control::explore::{Explore, Explored, explore};
pub use control::inject::{Injected, Recording, record_calls};
pub use control::install::{InstallError, install};
pub use control::live::{Live, live};
pub use control::pressure::{MemoryPressure, leave_memory};
pub use control::races::races;
pub use hooks::trace::Call;
