//! Simulates the CUDA driver.
//!
//! `calls` has the driver's functions under their real names. `caller` reads their arguments, and `hooks` run around
//! each call. A function locks the state in `process`, and acts on the objects in `memory`, `load`, `launch`, `stream`
//! and `graph`. A worker thread
//! (`stream/worker.rs`) does the work of all streams. `report` writes what kernels print, and why contexts have failed.
//!
//! Imports are acyclic: no two files import each other, directly or through other files.

mod caller;
mod calls;
mod config;
mod graph;
mod handles;
mod hooks;
mod launch;
mod load;
mod memory;
mod names;
mod process;
mod report;
mod result;
mod stream;
mod watched;

pub use calls::functions;
pub use config::device::Device;
pub use config::faults::{Fault, FaultError};
pub use config::{Config, Deadlock};
pub use hooks::control::{Injected, Recording, record_calls};
pub use hooks::trace::Call;
pub use memory::pressure::{MemoryPressure, leave_memory};
pub use process::install::{InstallError, install};
pub use process::live::{Live, live};
