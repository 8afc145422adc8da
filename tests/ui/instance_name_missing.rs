use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx", instances(<f32, 32> = "instance<float, 33u>"))]
pub unsafe fn instance<T, const N: u32>(x: &mut [T]);

fn main() {}
