use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/axpy.ptx", name = "saxpy")]
pub unsafe fn refused(n: Option<u32>, a: Option<&f32>, x: Option<*const f32>, y: Option<&'static mut [f32]>);

#[gpu_kernel(image = "images/axpy.ptx", name = "saxpy")]
pub unsafe fn direction(n: u32, a: f32, x: Option<&[f32]>, y: Option<&[f32]>);

#[gpu_kernel(image = "images/axpy.ptx", name = "saxpy")]
pub unsafe fn elements(n: u32, a: f32, x: Option<&[f64]>, y: std::option::Option<&mut [f32]>);

fn main() {}
