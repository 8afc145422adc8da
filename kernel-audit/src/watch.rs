//! The hooks, and what they know and record. Needs Linux with glibc.

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
