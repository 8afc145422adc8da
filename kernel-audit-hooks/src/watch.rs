//! Watches driver calls: the hooks, what they know and what they record. Needs Linux with glibc.
//!
//! `front` puts the hooks in front of the driver. `hooks` has a function for each watched function of the driver. The
//! hooks keep what is `known` of the driver's objects, obey a `section`, use what a `preload` loaded, and write the
//! `record` and its `events`; `hang` explains calls that do not return. `nvrtc` has hooks for NVRTC. `caller` and `python` read stacks. `loader` and `process` are
//! used by all; of CUDA they know only the driver's functions.

pub(crate) mod front;

mod asked;
mod budget;
mod caller;
mod events;
mod fault;
mod hang;
mod hooks;
mod known;
pub(crate) mod loader;
#[cfg_attr(
    not(feature = "export"),
    allow(dead_code, reason = "programs get there by the table that only the exported library has")
)]
mod nvrtc;
mod preload;
pub(crate) mod process;
mod python;
mod record;
mod section;
mod stretch;
