use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn plain(n: u64, x: &[f32], pair: u64);

fn main() {}
