use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/axpy.ptx")]
pub unsafe fn saxpy(n: Option<u32>, a: f32, x: &[f32], y: &mut [f32]);

fn main() {}
