//! The files of the audit: the record of what a process did, the preload that names what to load earlier, and results of NVRTC that are
//! kept beside a preload. Use `kernel-audit`, not this.
//!
//! The hooks write these files inside other people's processes, and the command reads them, so neither depends on the other. Items
//! that only these two need are hidden from the documentation.

#[cfg(not(unix))]
compile_error!(
    "kernel-audit watches the CUDA driver on Linux only; in Cargo.toml, depend on it below `[target.'cfg(target_os = \"linux\")'.dependencies]`"
);

pub mod causes;
#[doc(hidden)]
pub mod fnv1a;
#[doc(hidden)]
pub mod hang;
pub mod kept;
pub mod preload;
pub mod record;
pub mod variables;
#[doc(hidden)]
pub mod wrapped;

pub use causes::Cause;
pub use kernel_registry_cuda::rules;
