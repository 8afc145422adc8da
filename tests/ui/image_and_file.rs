use kernel_registry::gpu_kernel;

#[gpu_kernel(file = "cuda/spin.cu", image = "images/saxpy.ptx")]
pub unsafe fn saxpy(n: u32);

fn main() {}
