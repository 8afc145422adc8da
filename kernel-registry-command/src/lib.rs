//! What `cargo kernels` and `kernel-audit` share, and nobody else should depend on:
//!
//! - [`parse`] and [`finish`]: how a command begins and ends;
//! - [`terminal`]: all that a command prints; [`many`] counts things in sentences;
//! - [`Mapped`]: a file in memory;
//! - [`driver`]: the driver's functions that commands call;
//! - [`libraries`]: builds the simulated driver and the audit's hooks; [`folder`] puts them where the loader looks, and [`simulator`] without
//!   functions newer than the simulated version;
//! - [`Failure`]: the errors of all these; [`with_causes`] prints an error with its causes.

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

pub use failure::{Failure, with_causes};
pub use mapped::Mapped;
pub use plural::many;
pub use start::{cargo, finish, parse};
