use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", crate = ::nowhere)]
pub unsafe fn saxpy(n: u32);

fn main() {}
