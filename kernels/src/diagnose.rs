//! Kernels that use printf, assert or the device's heap. The driver sets these up at the first launch of such a kernel.

use kernel_registry::gpu_kernel;

/// Prints the index of each NaN.
#[gpu_kernel(file = "cuda/diagnose.cu", block = 256)]
pub unsafe fn report_nan(n: u32, x: &[f32]);

/// Ends every context of the process with an error if an element is infinite or NaN.
#[gpu_kernel(file = "cuda/diagnose.cu", block = 256)]
pub unsafe fn check_finite(n: u32, x: &[f32]);

/// The median of each row, sorted in memory from the device's heap.
#[gpu_kernel(file = "cuda/diagnose.cu", block = 256)]
pub unsafe fn row_medians(rows: u32, columns: u32, x: &[f32], medians: &mut [f32]);
