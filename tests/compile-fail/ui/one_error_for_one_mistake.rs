use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn saxpy(n: &u32);

fn main() {
    // The kernel is still a name, so that this adds no error.
    println!("{}", saxpy::INFO.path());
}
