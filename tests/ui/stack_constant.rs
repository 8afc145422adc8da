use kernel_registry::gpu_kernel;

const DEPTH: u32 = 1000;

#[gpu_kernel(image = "images/types.ptx", stack = 1024 * DEPTH)]
pub unsafe fn one(n: u32);

fn main() {}
