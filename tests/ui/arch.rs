use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", arch = "sm_80")]
pub unsafe fn a(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", arch = 80)]
pub unsafe fn b(n: u32);

#[gpu_kernel(image = "images/saxpy.ptx", arch = ">=8")]
pub unsafe fn c(n: u32);

fn main() {}
