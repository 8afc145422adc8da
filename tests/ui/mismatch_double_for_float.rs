use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn floats(a: f64, b: f64);

fn main() {}
