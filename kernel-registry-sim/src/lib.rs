//! Simulates a CUDA driver in software, for tests on machines without a GPU.
//!
//! After [`install`], everything in this process that opens `libcuda.so` gets the simulated driver, including cudarc
//! and kernel-registry. The driver has the functions of the driver API that cudarc's safe API and kernel-registry use,
//! under their real names. Which call loads a kernel, and which call or launch waits for the device, is as it was
//! measured with NVIDIA's driver. Where NVIDIA's driver would hang, the simulated driver reports the deadlock: which
//! work waits for which, and why. [`Config`] chooses the devices and the driver's version.
//!
//! [`explore`] runs a test in every order of its threads, streams, blocks and warps, up to a limit, and reports the shortest order
//! in which it hangs, races or fails.
//!
//! Tests can inject rare failures: a [`Fault`] makes calls fail, take longer or break their context, [`leave_memory`]
//! takes the device's memory, and [`Config::timing`] changes the order in which threads run. [`record_calls`] records
//! the calls, and [`live`] counts objects, to find leaks.
//!
//! ```no_run
//! #[test]
//! fn kernels_launch_without_a_gpu() -> Result<(), kernel_registry::MainError> {
//!     kernel_registry_sim::install()?;
//!     // The test continues as on a machine with a GPU: contexts, `warm_all`, launches.
//!     Ok(())
//! }
//! ```
//!
//! The output of a kernel and the reason of its failure appear in the output of the test whose thread launched the
//! kernel, at the next driver call of that thread. Other threads that get the error are told which thread launched the
//! kernel. With [`Deadlock::Wait`], a deadlock is reported at once, uncaptured by the test harness. The report of a
//! fault has the kernel's name as in the source, `reduce<float, 128u>`, and the source line if the kernel was compiled
//! with `-lineinfo`.
//!
//! Use this crate as a dev-dependency. In tests, kernels run and images are read several times faster if these crates
//! are compiled with optimisations:
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
//! [profile.dev.package.kernel-registry-schedule]
//! opt-level = 3
//!
//! [profile.dev.package.kernel-registry-sim]
//! opt-level = 3
//! ```
//!
//! `cargo kernels sim PROGRAM` runs any program on the same simulated driver, which is then a `libcuda.so.1` built with
//! the feature `export`. No other program should enable that feature, because it exports functions with CUDA's names.
//!
//! [`kernel_registry_ptx`] executes the kernels.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "kernel-registry-sim simulates the CUDA driver on Linux only; in Cargo.toml, depend on it below \
     `[target.'cfg(target_os = \"linux\")'.dev-dependencies]`"
);

#[cfg(target_os = "linux")]
mod driver;

#[cfg(target_os = "linux")]
#[doc(inline)]
pub use kernel_registry_ptx::Race;

#[cfg(target_os = "linux")]
pub use driver::{
    Call, Config, Deadlock, Device, Explore, Explored, Fault, FaultError, Injected, InstallError, Live,
    MemoryPressure, Recording, explore, functions, install, leave_memory, live, races, record_calls,
};
