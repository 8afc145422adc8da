//! Kernels without C++ types: sizes, and whether a value is floating point.

mod all_types {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn plain(n: u64, x: u32, pair: &[f32]);
}

mod extern_c_number {
    use kernel_registry::gpu_kernel;

    // What `x` points to nobody can know.
    #[gpu_kernel(image = "images/scale.ptx")]
    pub unsafe fn scale(x: &mut [f64], a: u32, n: f32, stride: f64, b: &[f64]);
}

mod extern_c_size {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn plain(n: u64, x: &[f32], pair: u64);
}

fn main() {}
