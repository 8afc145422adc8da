use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn saxpy(
    a: [f32; 4],
    b: (u32, f32),
    c: fn(u32) -> u32,
    d: impl Copy,
    e: [f32],
    f: _,
    g: !,
);

fn main() {}
