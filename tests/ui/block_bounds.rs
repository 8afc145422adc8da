use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", block = 2048)]
pub unsafe fn a(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", block = (32, 64))]
pub unsafe fn b(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", block = (8, 0, 128))]
pub unsafe fn c(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", block = (1, 1, 1, 1))]
pub unsafe fn d(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", block = "256")]
pub unsafe fn e(n: u32);

fn main() {}
