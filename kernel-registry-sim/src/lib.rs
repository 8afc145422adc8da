//! A CUDA device in software, for machines that have none.
//!
//! [`ptx`] executes kernels.

pub mod ptx;
