use kernel_registry::gpu_kernel;

const BLOCK: u32 = 4096;

#[gpu_kernel(image = "images/saxpy.ptx", block = BLOCK)]
pub unsafe fn saxpy(n: u32);

fn main() {}
