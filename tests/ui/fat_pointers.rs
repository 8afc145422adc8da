use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn saxpy(a: *const [f32], b: *mut dyn Send, c: *const str, d: &[[f32]]);

fn main() {}
