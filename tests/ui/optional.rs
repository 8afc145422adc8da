use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/axpy.ptx", name = "saxpy")]
pub unsafe fn refused(n: Option<u32>, a: Option<&f32>, x: Option<*const f32>, y: Option<&'static mut [f32]>);

#[gpu_kernel(image = "images/vectors.ptx", name = "move_all")]
pub unsafe fn compared(positions: Option<&[[f32; 4]]>, ids: std::option::Option<&[u32]>);

fn main() {}
