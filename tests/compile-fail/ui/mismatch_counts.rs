//! Parameters that are missing or too many, and other differences in the whole list.

mod count {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn one();

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn floats(a: f32);

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn plain(n: u32, x: *const f32);

    #[gpu_kernel(image = "images/types.ptx", name = "one")]
    pub unsafe fn more(n: u32, m: u32);
}

mod extern_c_count {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn plain(n: u32, x: &[f32]);
}

mod several {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn twice(x: &mut [f32]);

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn instance(x: &mut [f32]);

    #[gpu_kernel(image = "images/types.ptx", name = "instance<float, 64u>")]
    pub unsafe fn missing(x: &mut [f32]);

    #[gpu_kernel(image = "images/types.ptx", name = "instance<double, 64u>")]
    pub unsafe fn other_type(x: &mut [f32]);

    #[gpu_kernel(image = "images/types.ptx", name = "_Z5twicePd")]
    pub unsafe fn overload(x: &mut [f32]);
}

mod signature {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/signatures.ptx")]
    pub mod kernels {
        // The type of `b` in the name is that of `c`.
        pub unsafe fn longer(o: &mut [f32], b: f32, c: f32);
        pub unsafe fn wider(o: &mut [f32], n: i32);
        pub unsafe fn pack(a: f32, b: u32, n: i32);
    }
}

mod too_few_parameters {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn floats(a: f32);
}

mod too_many_parameters {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn floats(a: f32, b: f64, c: u32);
}

fn main() {}
