use kernel_registry::gpu_kernel;

const N: u32 = 32;

#[gpu_kernel(image = "images/types.ptx", instances(<f32, N>))]
pub unsafe fn instance<T, const N: u32>(x: &mut [T]);

fn main() {}
