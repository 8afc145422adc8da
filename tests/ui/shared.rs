use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", shared = -1)]
pub unsafe fn a(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", shared = 5_000_000_000)]
pub unsafe fn b(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", shared = "48 KiB")]
pub unsafe fn c(n: u32);

fn main() {}
