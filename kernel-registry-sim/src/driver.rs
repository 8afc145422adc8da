//! The CUDA driver, simulated: its functions under their real names, and how it behaves where that decides whether a program
//! goes on or hangs.

mod abi;
mod area;
mod calls;
mod capture;
mod config;
mod deadlock;
mod elf;
mod execute;
mod graph;
mod graph_memory;
mod handles;
mod image;
mod install;
mod launch;
mod link;
mod load;
mod memory;
mod pool;
mod ranges;
mod result;
mod schedule;
mod state;
mod stream;

pub use config::{Config, Deadlock};
pub use install::{InstallError, install};
