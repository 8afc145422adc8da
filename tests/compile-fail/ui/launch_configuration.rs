use std::sync::Arc;

use kernel_registry::cudarc::driver::{CudaSlice, CudaStream};
use kernel_registry::{Prepared, gpu_kernel};

#[gpu_kernel(image = "images/axpy.ptx", block = 256)]
pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);

#[gpu_kernel(image = "images/types.ptx", name = "plain")]
pub unsafe fn pointed(n: u32, x: *const f32, pair: Pair);

#[derive(Clone, Copy, kernel_registry::KernelParam)]
#[repr(C)]
pub struct Pair(f32, u32);

fn launch(stream: &Arc<CudaStream>, prepared: Prepared<saxpy>, other: &Prepared<pointed>, x: &CudaSlice<f32>, mut y: CudaSlice<f32>) {
    unsafe {
        let _ = saxpy::launch(stream, 256, 1, 2.0, x, &mut y);
        let _ = saxpy::launch(stream, prepared, 1, 2.0, x, &mut y);
        let _ = saxpy::launch(stream, other, 1, 2.0, x, &mut y);
        let _ = pointed::launch(stream, pointed::over(1), 1, 0, Pair(1.0, 2));
    }
}

fn main() {}
