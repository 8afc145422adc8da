//! Most tests of this crate, in one executable. Tests of recordings, of generated programs and of speed have
//! separate ones.

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
