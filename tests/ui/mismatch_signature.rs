use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/signatures.ptx")]
pub mod kernels {
    // The type of `b` in the name is that of `c`.
    pub unsafe fn longer(o: &mut [f32], b: f32, c: f32);
    pub unsafe fn wider(o: &mut [f32], n: i32);
    pub unsafe fn pack(a: f32, b: u32, n: i32);
}

fn main() {}
