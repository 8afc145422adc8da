use kernel_registry::cudarc::driver::{CudaSlice, CudaStream, CudaView};
use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/axpy.ptx", block = 256)]
pub unsafe fn saxpy(n: u32, a: f32, x: Option<&[f32]>, y: Option<&mut [f32]>);

fn launch(stream: &CudaStream, x: CudaView<'_, f32>, y: &CudaSlice<f32>, wide: &CudaSlice<f64>) {
    unsafe {
        let _ = saxpy::launch(stream, saxpy::over(1), 1, 2.0, Some(&x), None);
        let _ = saxpy::launch(stream, saxpy::over(1), 1, 2.0, Some(wide), None);
        let _ = saxpy::launch(stream, saxpy::over(1), 1, 2.0, None, Some(y));
    }
}

fn main() {}
