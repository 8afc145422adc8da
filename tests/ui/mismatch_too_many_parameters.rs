use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn floats(a: f32, b: f64, c: u32);

fn main() {}
