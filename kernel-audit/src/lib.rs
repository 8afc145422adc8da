//! Watches the CUDA driver calls of a program: which kernels are loaded late, what is compiled at run time, which calls take
//! long, and which never return.
//!
//! The command `kernel-audit PROGRAM` puts the library built from this crate in front of the driver. The library
//! exports the functions that it watches; any other function that the program asks for is the driver's own. Events go
//! into a [`record`], a mapped file, so the record is there even if the program hangs or is killed.
//!
//! With the feature `watch`, [`install`] does the same in a Rust program, without the command. A test asserts by
//! [`assert_no_findings`] that nothing was late.
//!
//! With the feature `serde`, what [`record::read`] returns serializes as the JSON of the command does
//! (`docs/audit-json.md`).
//!
//! [`rules`] says which calls wait for what; the measurements are in `docs/census.md`.

#[cfg(not(unix))]
compile_error!(
    "kernel-audit watches the CUDA driver on Linux only; in Cargo.toml, depend on it below `[target.'cfg(target_os = \"linux\")'.dependencies]`"
);

mod causes;
#[cfg(all(feature = "command", target_os = "linux"))]
pub mod command;
mod fnv1a;
#[cfg(all(any(feature = "watch", feature = "command"), target_os = "linux"))]
mod hang;
mod kept;
pub mod preload;
pub mod record;
pub mod variables;
#[cfg(all(any(feature = "watch", feature = "command"), target_os = "linux"))]
mod wrapped;

pub use causes::{Cause, causes};
pub use kernel_registry_cuda::rules;

#[cfg(feature = "watch")]
mod environment;
#[cfg(feature = "watch")]
mod install;
#[cfg(feature = "watch")]
mod options;
#[cfg(feature = "watch")]
mod outcome;

#[cfg(feature = "watch")]
pub use install::{assert_no_findings, findings, install, mark, ready, report};
#[cfg(feature = "watch")]
pub use options::{AfterReady, Audit, OnHang, PreloadAt};
#[cfg(feature = "watch")]
pub use outcome::{InstallError, Installed, NotWatched};

// `watch` calls the loader of glibc and the driver.
#[cfg(all(feature = "watch", target_os = "linux", target_env = "gnu"))]
mod watch;
