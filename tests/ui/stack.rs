use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", stack = -1)]
pub unsafe fn a(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", stack = 524_289)]
pub unsafe fn b(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", stack = "16 KiB")]
pub unsafe fn c(n: u32);

fn main() {}
