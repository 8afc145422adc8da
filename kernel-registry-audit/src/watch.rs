//! The hooks, and what they know and record. Needs Linux with glibc.

pub(crate) mod front;

mod caller;
mod contexts;
mod hang;
mod hooks;
mod known;
mod locked;
mod lookup;
mod ready;
mod real;
mod recording;
mod say;
mod stacks;
mod threads;
mod watched;
