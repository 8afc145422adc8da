//! Kernels that nvcc linked into the program, which C++ launches with `<<<>>>`.
//!
//! nvcc's code registers each kernel with CUDA's runtime library before `main`. `kernel_registry_build::linked()` makes the
//! linker send these calls through `shim`, which adds the kernels to the lists of `heads`. `kernels` reads these by `list`, and makes a `KernelInfo` of each, and `runtime`
//! asks the runtime library for the handle that `<<<>>>` launches.

mod declared;
#[cfg(linked_kernels)]
mod heads;
mod kernels;
#[cfg_attr(not(linked_kernels), path = "linked/no_list.rs")]
mod list;
mod runtime;
#[cfg(linked_kernels)]
mod shim;

use std::ffi::{CStr, c_void};

use crate::driver::{DriverCallError, Function};
pub(crate) use declared::{NotJoined, Registrations, join, key};
pub(crate) use kernels::{count, kernels};
use runtime::Addresses;
pub(crate) use runtime::GET_FUNCTION;

/// A kernel that nvcc's code has registered with its runtime library.
#[derive(Clone, Copy)]
pub(crate) struct Linked {
    /// The handle of the fatbin that it is in.
    fatbin: usize,
    /// The address of the host function that stands for the kernel.
    host: usize,
    /// The kernel's symbol.
    symbol: &'static CStr,
    runtime: &'static Addresses,
    /// Whether its image was read, so that its parameters are known.
    is_read: bool,
}

/// Why nothing can be compared with a kernel whose image was not read, and what to do.
#[cfg(not(feature = "linked"))]
pub(crate) const UNREAD: &str = "the parameters of the kernel that nvcc linked were not read: turn on the feature `linked` of \
    kernel-registry in Cargo.toml, as in `kernel-registry = { .., features = [\"linked\"] }`";
#[cfg(feature = "linked")]
pub(crate) const UNREAD: &str = "the parameters of the kernel that nvcc linked are not known, because its image cannot be read: \
    `cargo kernels list` says why, and compiling with CUDA 13.0 or before helps";

/// A fatbin that nvcc's code has registered.
#[derive(Clone, Copy)]
#[repr(C)]
struct Fatbin {
    handle: usize,
    /// `{ u32 magic; u32 version; const void* containers; void* more; }`
    wrapper: *const c_void,
}

impl Linked {
    /// Whether its parameters are known.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    /// The handle that `<<<>>>` launches in the current context. This loads the kernel.
    pub(crate) fn function(&self) -> Result<Function, DriverCallError> {
        self.runtime.function(self.host)
    }
}
