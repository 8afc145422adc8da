use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn saxpy(
    a: &f32,
    b: &mut u32,
    c: &'static [f32],
    d: &[f32; 4],
    e: &str,
);

fn main() {}
