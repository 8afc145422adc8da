//! The kernels of `cuda/`, as Rust declares them.

use kernel_registry::gpu_kernel;

/// y = a*x + y
#[gpu_kernel(file = "cuda/saxpy.cu", block = 256)]
pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
