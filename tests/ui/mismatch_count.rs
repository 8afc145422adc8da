use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn one();

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn floats(a: f32);

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn plain(n: u32, x: *const f32);

#[gpu_kernel(image = "images/types.ptx", name = "one")]
pub unsafe fn more(n: u32, m: u32);

fn main() {}
