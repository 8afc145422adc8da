use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn pointers(
    a: &[f32],
    out: &mut [f32],
    any: *mut u8,
    numbers: &[u32],
    pairs: *mut u8,
    rows: *mut *mut f32,
);

fn main() {}
