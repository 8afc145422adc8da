use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn saxpy(_: u32, mut n: u32, (a, b): u32, ref r: u32);

fn main() {}
