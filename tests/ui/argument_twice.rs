use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", block = 256, block = 128)]
pub unsafe fn saxpy(n: u32);

fn main() {}
