//! A CUDA device in software, with its driver, for machines that have none.
//!
//! After [`install`] whoever opens `libcuda.so` in this process gets the simulated driver, cudarc and kernel-registry included. It
//! has the driver API under its real names, and behaves as NVIDIA's driver was measured to: what loads a kernel, which call waits
//! for the device, and which first launch does. Where that one would hang, this one says who waits for whom, and why.
//! [`Config`] says how many devices of which kind there are.
//!
//! ```no_run
//! #[test]
//! fn kernels_launch_without_a_gpu() -> Result<(), Box<dyn std::error::Error>> {
//!     kernel_registry_sim::install()?;
//!     // From here on all is as on a machine with a GPU: contexts, `warm_all`, launches.
//!     Ok(())
//! }
//! ```
//!
//! That is for tests, and this crate a dev-dependency. Kernels are executed several times faster if it is compiled with
//! optimisations in tests too:
//!
//! ```toml
//! [profile.dev.package.kernel-registry-sim]
//! opt-level = 3
//! ```
//!
//! Programs in whatever language that know nothing of it run on the same driver
//! by `cargo kernels sim -- program`, which makes a `libcuda.so.1` of it with the feature `export`. No other program should have that
//! feature: it would have functions of CUDA's names in it.
//!
//! [`ptx`] executes kernels.

mod driver;
pub mod ptx;

pub use driver::{Config, Deadlock, InstallError, functions, install};
