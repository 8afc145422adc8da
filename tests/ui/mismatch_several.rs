use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn twice(x: &mut [f32]);

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn instance(x: &mut [f32]);

#[gpu_kernel(image = "images/types.ptx", name = "instance<float, 64u>")]
pub unsafe fn missing(x: &mut [f32]);

#[gpu_kernel(image = "images/types.ptx", name = "instance<double, 64u>")]
pub unsafe fn other_type(x: &mut [f32]);

#[gpu_kernel(image = "images/types.ptx", name = "_Z5twicePd")]
pub unsafe fn overload(x: &mut [f32]);

fn main() {}
