use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", type = "Saxpy")]
pub unsafe fn saxpy(n: u32);

fn main() {}
