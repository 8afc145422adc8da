//! The tests of this crate in one program, but for those of recordings and generated programs, and of speed.

#[path = "../common/mod.rs"]
mod common;
mod damaged;
mod matrices;
mod operations;
mod refused;
mod registers;
mod samples;
mod threads;
mod unrecorded;
