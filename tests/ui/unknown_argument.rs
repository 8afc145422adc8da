use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", blok = 256, grid = 4)]
pub unsafe fn saxpy(n: u32);

fn main() {}
