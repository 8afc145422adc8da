//! Watches the CUDA driver calls of a program: which kernels are loaded late, what is compiled at run time, which calls take
//! long, and which never return.
//!
//! `cargo kernels audit -- PROGRAM` puts the library built from this crate in front of the driver. It exports the functions
//! that it watches, and whatever else the program asks for is the driver's own. What happens goes into a [`record`], a
//! mapped file, so it is there even if the program hangs or is killed.
//!
//! [`rules`] says which calls wait for what; the measurements are in `docs/census.md`.

pub mod record;
pub mod rules;
pub mod variables;

#[cfg(feature = "watch")]
mod caller;
#[cfg(feature = "watch")]
mod contexts;
#[cfg(feature = "watch")]
mod hang;
#[cfg(feature = "watch")]
mod hooks;
#[cfg(feature = "watch")]
mod known;
#[cfg(feature = "watch")]
mod locked;
#[cfg(feature = "watch")]
mod lookup;
#[cfg(feature = "watch")]
mod ready;
#[cfg(feature = "watch")]
mod real;
#[cfg(feature = "watch")]
mod recording;
#[cfg(feature = "watch")]
mod stacks;
#[cfg(feature = "watch")]
mod watched;
