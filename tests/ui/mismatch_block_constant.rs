use kernel_registry::gpu_kernel;

const THREADS: u32 = 256;

#[gpu_kernel(image = "images/types.ptx", block = THREADS)]
pub unsafe fn bounded(n: u32);

fn main() {}
