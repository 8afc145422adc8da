use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub mod kernels {
    pub unsafe fn one(n: f32);

    pub unsafe fn tow(n: u32);
}

fn main() {}
