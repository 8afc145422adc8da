use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx", block = 256)]
pub unsafe fn bounded(n: u32);

#[gpu_kernel(image = "images/types.ptx", block = (16, 16), name = "bounded")]
pub unsafe fn square(n: u32);

fn main() {}
