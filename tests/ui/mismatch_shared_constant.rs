use kernel_registry::gpu_kernel;

const BINS: u32 = 25_000;

#[gpu_kernel(image = "images/types.ptx", shared = 4 * BINS)]
pub unsafe fn one(n: u32);

fn main() {}
