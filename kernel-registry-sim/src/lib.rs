//! A CUDA driver in software, for tests on machines without a GPU.
//!
//! After [`install`], everything that opens `libcuda.so` in this process gets the simulated driver, cudarc and kernel-registry
//! included. It has the driver API under its real names, as far as cudarc's safe API and kernel-registry use it, and behaves as
//! NVIDIA's driver was measured to: which call loads a kernel, and which call or first launch waits for the device. Where NVIDIA's
//! driver would hang, this one reports the deadlock: which work waits for which, and why. [`Config`] chooses the devices and the driver's
//! version.
//!
//! Rare failures can be injected: a [`Fault`] makes calls fail, take longer or break their context, [`leave_memory`] takes the
//! device's memory, and [`Config::timing`] changes the order in which threads run. [`record_calls`] records the calls, and [`live`]
//! counts objects, to find leaks.
//!
//! ```no_run
//! #[test]
//! fn kernels_launch_without_a_gpu() -> Result<(), Box<dyn std::error::Error>> {
//!     kernel_registry_sim::install()?;
//!     // From here on the test is as on a machine with a GPU: contexts, `warm_all`, launches.
//!     Ok(())
//! }
//! ```
//!
//! What a kernel prints, and why it failed, is in the output of the test whose thread launched it, on the driver call after; other
//! threads that get the error are told which thread that was. A deadlock that [`Deadlock::Wait`] lets go on is reported at once, past
//! the test harness. A fault names the kernel as its source does, `reduce<float, 128u>`, and the line of the source if it was compiled
//! with `-lineinfo`.
//!
//! This crate is a dev-dependency. Kernels run several times faster if it and the interpreter are compiled with optimisations in
//! tests too, and images are read several times faster:
//!
//! ```toml
//! [profile.dev.package.kernel-registry-format]
//! opt-level = 3
//!
//! [profile.dev.package.kernel-registry-cuda]
//! opt-level = 3
//!
//! [profile.dev.package.kernel-registry-image]
//! opt-level = 3
//!
//! [profile.dev.package.kernel-registry-ptx]
//! opt-level = 3
//!
//! [profile.dev.package.kernel-registry-sim]
//! opt-level = 3
//! ```
//!
//! `cargo kernels sim PROGRAM` runs any program on the same driver, as a `libcuda.so.1` that is built with the feature `export`.
//! No other program should enable that feature, which exports functions of CUDA's names.
//!
//! [`kernel_registry_ptx`] executes the kernels.

mod driver;

pub use driver::{
    Call, Config, Deadlock, Device, Fault, FaultError, Injected, InstallError, Live, MemoryPressure,
    Recording, functions, install, leave_memory, live, record_calls,
};
