use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn plain(n: u64, x: u32, pair: &[f32]);

fn main() {}
