use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/vectors.ptx")]
pub unsafe fn move_all(positions: &mut [[f32; 4]], ids: &[u32]);

fn main() {}
