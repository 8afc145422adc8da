//! Kernels that nvcc linked into the program, and that C++ code launches with `<<<>>>`.
//!
//! nvcc's code registers each kernel with CUDA's runtime library before `main`. `kernel_registry_build::linked()` makes the linker
//! replace these calls by calls of `shim`, which adds the kernels to the lists in `heads`. `list` reads these lists, `kernels` makes
//! a `KernelInfo` of each kernel, and `runtime` asks the runtime library for the handle that `<<<>>>` launches.

mod declared;
#[cfg(linked_kernels)]
mod heads;
mod kernels;
#[cfg_attr(not(linked_kernels), path = "linked/no_list.rs")]
mod list;
mod runtime;
#[cfg(linked_kernels)]
mod shim;

use std::ffi::CStr;

use crate::driver::{DriverCallError, Function};
pub(crate) use declared::{NotJoined, Registrations, join, key};
pub(crate) use kernels::{count, kernels};
use runtime::Addresses;
pub(crate) use runtime::GET_FUNCTION;

/// A kernel that nvcc's code has registered with CUDA's runtime library.
#[derive(Clone, Copy)]
pub(crate) struct Linked {
    /// The handle of the fatbin that contains the kernel.
    fatbin: usize,
    /// The address of the host function that stands for the kernel.
    host: usize,
    /// The kernel's symbol.
    symbol: &'static CStr,
    runtime: &'static Addresses,
    /// Whether the kernel's image was read. Then the kernel's parameters are known.
    is_read: bool,
}

/// The message for a kernel whose parameters are not known because its image was not read.
#[cfg(not(feature = "linked"))]
pub(crate) const UNREAD: &str = "the parameters of the kernel that nvcc linked were not read: turn on the feature `linked` of \
    kernel-registry in Cargo.toml, as in `kernel-registry = { .., features = [\"linked\"] }`";
#[cfg(feature = "linked")]
pub(crate) const UNREAD: &str = "the parameters of the kernel that nvcc linked are not known, because its image cannot be read: \
    `cargo kernels list` says why, and compiling with CUDA 13.0 or before helps";

/// A fatbin that nvcc's code has registered.
#[cfg(any(linked_kernels, feature = "linked"))]
#[derive(Clone, Copy)]
#[repr(C)]
struct Fatbin {
    handle: usize,
    /// `{ u32 magic; u32 version; const void* containers; void* more; }`
    wrapper: *const std::ffi::c_void,
}

impl Linked {
    /// Returns whether the kernel's parameters are known.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    /// Returns the handle that `<<<>>>` launches in the current context. This loads the kernel.
    pub(crate) fn function(&self) -> Result<Function, DriverCallError> {
        self.runtime.function(self.host)
    }
}
