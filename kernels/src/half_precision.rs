//! A kernel with sixteen-bit floating point parameters.

use half::f16;
use kernel_registry::gpu_kernel;

/// y = a*x + y, rounded once per element
#[gpu_kernel(file = "cuda/half.cu", block = 256)]
pub unsafe fn haxpy(n: u32, a: f16, x: &[f16], y: &mut [f16]);
