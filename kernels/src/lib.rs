//! The sample crate: kernels of BLAS-1, templates, a kernel with a struct parameter, and kernels that wait or need much memory on purpose.
//! The CUDA sources are in `cuda/`, and images for machines without a compiler in `prebuilt/`.

pub mod diagnose;
pub mod half_precision;
pub mod memory;
pub mod particles;
pub mod templates;
pub mod waiting;

use kernel_registry::gpu_kernel;

/// The first level of BLAS, on contiguous vectors. Each kernel takes any grid.
#[gpu_kernel(file = "cuda/blas1.cu", arch = ">=60", block = 256)]
pub mod blas1 {
    /// y = a*x + y
    pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);

    /// y = a*x + y
    pub unsafe fn daxpy(n: u32, a: f64, x: &[f64], y: &mut [f64]);

    /// x = a*x
    pub unsafe fn sscal(n: u32, a: f32, x: &mut [f32]);

    /// x = a*x
    pub unsafe fn dscal(n: u32, a: f64, x: &mut [f64]);

    /// out += x . y
    pub unsafe fn sdot(n: u32, x: &[f32], y: &[f32], out: &mut [f32]);

    /// out += x . y
    pub unsafe fn ddot(n: u32, x: &[f64], y: &[f64], out: &mut [f64]);

    /// out += x . x, the square of the norm
    pub unsafe fn snrm2(n: u32, x: &[f32], out: &mut [f32]);

    /// out += x . x, the square of the norm
    pub unsafe fn dnrm2(n: u32, x: &[f64], out: &mut [f64]);
}
