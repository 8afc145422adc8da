use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/types.ptx")]
pub unsafe fn integers(
    a: bool,
    b: i8,
    c: i8,
    d: u8,
    e: i16,
    f: u16,
    g: i32,
    h: u32,
    i: i64,
    j: i64,
    k: i64,
    l: u64,
);

fn main() {}
