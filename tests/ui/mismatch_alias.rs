use kernel_registry::gpu_kernel;

type Real = f64;
type Count = i32;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn floats(a: Real, b: Real);

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn one(n: Count);

fn main() {}
