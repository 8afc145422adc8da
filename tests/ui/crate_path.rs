use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", crate = "kernel_registry")]
pub unsafe fn saxpy(n: u32);

fn main() {}
