use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/notes.txt")]
pub unsafe fn saxpy(n: u32);

fn main() {}
