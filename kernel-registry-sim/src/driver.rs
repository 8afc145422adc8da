//! The simulated driver.
//!
//! `calls` has the functions under their real names, one folder or file for each kind of object. What they do is in the folder of
//! that kind, as methods of the state (`process/state.rs`). Imports lead one way: no file imports one that imports it.

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
