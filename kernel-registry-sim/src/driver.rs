//! The CUDA driver, simulated: its functions under their real names, and how it behaves where that decides whether a program
//! goes on or hangs.

mod abi;
mod caller;
mod calls;
mod capture;
mod compile;
mod config;
mod deadlock;
mod device;
mod elf;
mod execute;
mod faults;
mod graph;
mod graph_launch;
mod graph_memory;
mod handles;
mod hooks;
mod image;
mod install;
mod launch;
mod live;
mod load;
mod load_lock;
mod memory;
mod neighbour;
mod pool;
mod process;
mod ranges;
mod result;
mod schedule;
mod state;
mod stream;
mod timing;
mod trace;

pub use calls::functions;
pub use config::{Config, Deadlock};
pub use device::Device;
pub use faults::{Fault, FaultError, Injected};
pub use install::{InstallError, install};
pub use live::{Live, live};
pub use neighbour::{Neighbour, leave_memory};
pub use trace::{Call, Recording, record_calls};
