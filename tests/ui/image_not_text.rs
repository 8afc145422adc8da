use kernel_registry::gpu_kernel;

#[gpu_kernel(image = saxpy)]
pub unsafe fn saxpy(n: u32);

fn main() {}
