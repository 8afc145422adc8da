//! Functions that `cargo kernels` and `kernel-audit` share, and that nobody else should depend on:
//!
//! - [`parse`] and [`finish`]: how a command begins and ends;
//! - [`terminal`]: prints the output of a command; [`many`]: a number and its noun, as in `2 kernels`;
//! - [`Mapped`]: a file in memory; [`write`](write()): writes a file as a whole;
//! - [`compiler`]: compiles PTX to machine code, where a compiler is installed; [`bake`] keeps that in a file;
//! - [`driver`]: the driver's functions that commands call;
//! - [`libraries`]: builds the simulated driver and the audit's hooks;
//! - [`folder`]: puts a library where the loader looks for the driver, without functions newer than a version;
//! - [`simulator`]: does so with the simulated driver;
//! - [`Failure`]: the errors of these functions; [`with_causes`] prints an error with its causes.

pub mod bake;
pub mod compiler;
pub mod driver;
mod failure;
#[cfg(target_os = "linux")]
pub mod folder;
#[cfg(target_os = "linux")]
pub mod libraries;
mod mapped;
mod plural;
#[cfg(target_os = "linux")]
pub mod simulator;
mod start;
pub mod terminal;
mod write;

pub use failure::{Failure, with_causes};
pub use mapped::Mapped;
pub use plural::many;
pub use start::{cargo, finish, parse};
pub use write::write;
