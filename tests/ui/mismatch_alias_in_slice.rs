use kernel_registry::gpu_kernel;

type Number = u32;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn pointers(
    a: &[Number],
    out: &mut [f32],
    any: *mut u8,
    numbers: &[i32],
    pairs: *mut u8,
    rows: *mut *mut f32,
);

fn main() {}
