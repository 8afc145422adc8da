use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "cuda/spin.cu")]
pub unsafe fn touch(out: *mut u32);

fn main() {}
