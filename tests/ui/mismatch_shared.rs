use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx", shared = 65536)]
pub unsafe fn one(n: u32);

#[gpu_kernel(image = "images/types.ptx", name = "one", arch = ">=75", shared = 65537)]
pub unsafe fn turing(n: u32);

#[gpu_kernel(image = "images/types.ptx", name = "one", arch = ">=90", shared = 300_000)]
pub unsafe fn nobody(n: u32);

fn main() {}
