use kernel_registry::gpu_kernel;

#[gpu_kernel]
pub unsafe fn saxpy(n: u32);

fn main() {}
