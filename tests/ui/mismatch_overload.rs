use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn twice(x: &mut [f32]);

fn main() {}
