//! Functions that `cargo kernels` and `kernel-audit` share. An internal crate, not for other dependents:
//!
//! - [`parse`] and [`finish`]: parse the arguments, and exit;
//! - [`terminal`]: prints the output of a command; [`many`]: a number and its noun, as in `2 kernels`;
//! - [`Mapped`]: a file in memory; [`write`](write()): writes a file atomically;
//! - [`compiler`]: compiles PTX to machine code, if a compiler is installed; [`bake`] stores that in a file;
//! - [`driver`]: calls the driver;
//! - [`libraries`]: builds the simulated driver and the audit's hooks;
//! - [`folder`]: puts a library where the loader looks for the driver, without functions newer than a version;
//! - [`simulator`]: does so for the simulated driver;
//! - [`Failure`]: the errors of these functions; [`with_causes`] formats an error with its causes.

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
