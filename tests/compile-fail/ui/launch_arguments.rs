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

fn launch(stream: &Arc<CudaStream>, x: &CudaSlice<f32>, mut y: CudaSlice<f32>, wide: &CudaSlice<f64>) {
    unsafe {
        let _ = saxpy::launch(stream, saxpy::over(1), 1, 2.0, &vec![1.0_f32], &mut y);
        let _ = saxpy::launch(stream, saxpy::over(1), 1, 2.0, wide, &mut y);
        let _ = saxpy::launch(stream, saxpy::over(1), 1, 2.0, x, &y);
        let _ = saxpy::launch(stream, saxpy::over(1), 1_u64, 2.0, x, &mut y);
        let _ = saxpy::launch(stream, saxpy::over(1), 1, 2.0, x);
        let _ = pointed::launch(stream, pointed::over(1), 1, x, Pair(1.0, 2));
        let _ = pointed::launch(stream, pointed::over(1), 1, std::ptr::null::<f64>(), Pair(1.0, 2));
    }
}

fn main() {}
