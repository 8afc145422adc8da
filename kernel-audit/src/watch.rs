//! The hooks, and what they know and record. Needs Linux with glibc.
//!
//! `front` puts the hooks in front of the driver. `hooks` has a function for each that is watched. They keep what is `known` of the driver's
//! objects, obey a `section`, take what a `preload` loaded, and write the `record`; `hang` explains calls that do not return. `caller` and `python`
//! read stacks. `loader` and `process` know nothing of CUDA but the driver's functions, and are used by all.

pub(crate) mod front;

mod caller;
mod hang;
mod hooks;
mod known;
pub(crate) mod loader;
mod preload;
pub(crate) mod process;
mod python;
mod record;
mod section;
