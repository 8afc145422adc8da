use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn host(a: String, b: &[Vec<f32>], c: char);

fn main() {}
