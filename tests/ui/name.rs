use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", name = "saxpy(int)")]
pub unsafe fn a(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", name = "")]
pub unsafe fn b(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", name = saxpy)]
pub unsafe fn c(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn größe(n: u32);

fn main() {}
