use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx", instances(<i32, 32>))]
pub unsafe fn instance<T, const N: u32>(x: &mut [T]);

fn main() {}
