use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn saxpy(#[allow(unused)] n: u32);

fn main() {}
