use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn flots(a: f32, b: f64);

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn insde(n: u32);

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn nothing_like_it(n: u32);

#[gpu_kernel(image = "images/types.ptx", name = "er::insid")]
pub unsafe fn qualified(n: u32);

fn main() {}
