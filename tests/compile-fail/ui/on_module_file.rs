use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
mod elsewhere;

fn main() {}
