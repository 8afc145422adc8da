#![deny(missing_docs)]
//! Documentation that is missing is missing on a kernel too.

use kernel_registry::gpu_kernel;

/// Documented.
#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn a(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", name = "a")]
pub unsafe fn b(n: u32);

fn main() {}
