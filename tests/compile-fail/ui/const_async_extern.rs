use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
pub const async unsafe extern "C" fn saxpy(n: u32);

fn main() {}
