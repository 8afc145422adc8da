use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaSlice, CudaStream};
use kernel_registry::{gpu_kernel};

#[gpu_kernel(image = "images/axpy.ptx", block = 256)]
pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);

#[gpu_kernel(image = "images/types.ptx", name = "plain")]
pub unsafe fn pointed(n: u32, x: *const f32, pair: Pair);

#[derive(Clone, Copy, kernel_registry::KernelParam)]
#[repr(C)]
pub struct Pair(f32, u32);

fn launch(stream: &Arc<CudaStream>, x: &CudaSlice<f32>, mut y: CudaSlice<f32>) {
    let _ = saxpy::launch(stream, saxpy::over(1), 1, 2.0, x, &mut y);
}

fn main() {}
