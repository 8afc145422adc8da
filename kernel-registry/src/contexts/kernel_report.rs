//! The report of one warm kernel.

use std::time::Duration;

/// A warm kernel. All sizes are in bytes; their serialized names end in `_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KernelReport {
    /// The kernel's path.
    pub path: &'static str,
    /// The kernel's image.
    pub image: &'static str,
    /// Where the kernel's machine code came from.
    pub code: MachineCode,
    /// Registers per thread.
    pub registers: u32,
    /// Local memory per thread, from the driver's attribute: the frames of the kernel and of all functions that it calls,
    /// except recursive functions.
    #[cfg_attr(feature = "serde", serde(rename = "local_bytes"))]
    pub local: u32,
    /// Stack per thread that this kernel's launches will have: the largest of `local`, the declared `stack`, and the stack
    /// that the image names for recursive calls and for kernels that this kernel launches.
    #[cfg_attr(feature = "serde", serde(rename = "stack_bytes"))]
    pub stack: u32,
    /// Whether the kernel never needs more than `stack`. False if its calls are recursive and its declaration has no
    /// `stack = ..`; then a launch that needs more waits for the device.
    pub stack_known: bool,
    /// Static shared memory of a block.
    #[cfg_attr(feature = "serde", serde(rename = "static_shared_bytes"))]
    pub static_shared: u32,
    /// The most dynamic shared memory that a block may have.
    #[cfg_attr(feature = "serde", serde(rename = "dynamic_shared_bytes"))]
    pub dynamic_shared: u32,
    /// Constant memory.
    #[cfg_attr(feature = "serde", serde(rename = "constants_bytes"))]
    pub constants: u32,
    /// The most threads that a block may have.
    pub threads: u32,
    /// The PTX version that the kernel was compiled from: 80 for 8.0.
    pub ptx_version: u32,
    /// The architecture that the kernel was compiled for: 90 for sm_90.
    pub binary_version: u32,
    /// How long resolving the kernel took. Serialized as `resolved_in_ms`.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "resolved_in_ms", serialize_with = "crate::milliseconds::serialize")
    )]
    pub resolved_in: Duration,
}

/// Where the machine code of a kernel came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum MachineCode {
    /// The kernel's image.
    #[default]
    Image,
    /// A file of baked code: see [`Warmup::baked`](crate::Warmup::baked).
    Baked,
    /// The driver's compiler, from PTX.
    Compiled,
}

impl MachineCode {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            MachineCode::Image => "image",
            MachineCode::Baked => "baked",
            MachineCode::Compiled => "compiled",
        }
    }
}
