//! A CUDA device in software, with its driver, for machines that have none.
//!
//! After [`install`] whoever opens `libcuda.so` in this process gets the simulated driver, cudarc and kernel-registry included. It
//! has the driver API under its real names, and behaves as NVIDIA's driver was measured to: what loads a kernel, which call waits
//! for the device, and which first launch does. Where that one would hang, this one says who waits for whom, and why.
//! [`Config`] says which devices there are, and how old the driver is.
//!
//! What goes wrong on a real device once a year goes wrong here at will: a [`Fault`] is a call that fails, takes longer, or starts
//! what fails; [`leave_memory`] is somebody else who has taken the device's; [`Config::timing`] is another order of things.
//! [`record_calls`] says which calls there are, and [`live`] whether anything was left behind.
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
//! That is for tests, and this crate a dev-dependency. Kernels run several times faster if it and the interpreter
//! are compiled with optimisations in tests too:
//!
//! ```toml
//! [profile.dev.package.kernel-registry-ptx]
//! opt-level = 3
//!
//! [profile.dev.package.kernel-registry-sim]
//! opt-level = 3
//! ```
//!
//! Programs in whatever language that know nothing of it run on the same driver
//! by `cargo kernels sim -- program`, which makes a `libcuda.so.1` of it with the feature `export`. No other program should have that
//! feature: it would have functions of CUDA's names in it.
//!
//! [`kernel_registry_ptx`] executes kernels.

mod driver;

pub use driver::{
    Call, Config, Deadlock, Device, Fault, FaultError, Injected, InstallError, Live, Neighbour, Recording,
    functions, install, leave_memory, live, record_calls,
};
