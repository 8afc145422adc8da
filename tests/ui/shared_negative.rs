use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", shared = -1)]
pub unsafe fn saxpy(n: u32);

fn main() {}
