use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn saxpy(&self, n: u32);

fn main() {}
