//! The hooks, and what they know and record. Needs Linux with glibc.

pub(crate) mod front;

mod build_id;
mod caller;
mod contexts;
mod hang;
mod hooks;
mod known;
mod locked;
mod lookup;
mod memory;
mod ready;
mod real;
mod recording;
mod say;
mod section;
mod stacks;
mod streams;
mod threads;
mod watched;
