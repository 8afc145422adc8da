//! A CUDA device in software, for machines that have none.
//!
//! [`ptx`] executes kernels.

mod driver;
pub mod ptx;

pub use driver::{Config, Deadlock, InstallError, install};
