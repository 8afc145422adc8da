use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/nothing.ptx", blok = 256, arch = "80")]
#[inline]
pub fn saxpy(n: &u32, _: f32) -> u32 {
    *n
}

fn main() {}
