use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn plain(n: u32, x: &[f32]);

fn main() {}
