//! The CUDA driver, simulated: its functions under their real names, and how it behaves where that decides whether a program
//! goes on or hangs.

mod abi;
mod caller;
mod calls;
mod config;
mod deadlock;
mod elf;
mod execute;
mod handles;
mod image;
mod install;
mod launch;
mod load;
mod memory;
mod process;
mod result;
mod schedule;
mod state;
mod stream;

pub use config::{Config, Deadlock};
pub use install::{InstallError, install};
