//! A CUDA device in software, with its driver, for machines that have none.
//!
//! After [`install`] whoever opens `libcuda.so` in this process gets the simulated driver, cudarc and kernel-registry included. It
//! has the driver API under its real names, and behaves as NVIDIA's driver was measured to: what loads a kernel, which call waits
//! for the device, and which first launch does. Where that one would hang, this one says who waits for whom, and why.
//! [`Config`] says how many devices of which kind there are.
//!
//! [`ptx`] executes kernels.

mod driver;
pub mod ptx;

pub use driver::{Config, Deadlock, InstallError, install};
