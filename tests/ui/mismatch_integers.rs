use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn integers(
    a: u8,
    b: u16,
    c: u8,
    d: i8,
    e: u16,
    f: i16,
    g: u32,
    h: i32,
    i: u64,
    j: i64,
    k: f64,
    l: i64,
);

fn main() {}
