use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
#[inline]
#[unsafe(no_mangle)]
#[derive(Clone)]
#[test]
pub unsafe fn saxpy(n: u32);

fn main() {}
