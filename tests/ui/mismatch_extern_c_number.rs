use kernel_registry::gpu_kernel;

// What `x` points to nobody can know.
#[gpu_kernel(image = "images/scale.ptx")]
pub unsafe fn scale(x: &mut [f64], a: u32, n: f32, stride: f64, b: &[f64]);

fn main() {}
