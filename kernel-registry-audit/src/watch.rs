//! The hooks, and what they know and record. Needs Linux with glibc.

pub(crate) mod front;

mod build_id;
mod busy;
mod caller;
mod code;
mod contexts;
mod devices;
mod explanation;
mod fork;
mod hang;
mod hook;
mod hooks;
mod known;
mod library;
mod locked;
mod lookup;
mod mapped;
mod memory;
mod origin;
mod owners;
mod preload;
mod python;
mod ready;
mod real;
mod recording;
mod say;
mod section;
mod stack;
mod stacks;
mod streams;
mod system;
mod table;
mod threads;
mod unloaded;
mod waits;
mod watched;
