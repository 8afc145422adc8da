//! Names that the image does not have, or has more than once.

mod module {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub mod kernels {
        pub unsafe fn one(n: f32);

        pub unsafe fn tow(n: u32);
    }
}

mod similar_names {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn flots(a: f32, b: f64);

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn insde(n: u32);

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn nothing_like_it(n: u32);

    #[gpu_kernel(image = "images/types.ptx", name = "er::insid")]
    pub unsafe fn qualified(n: u32);
}

mod namespace {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn outside_er(n: u32);
}

mod overload {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn twice(x: &mut [f32]);
}

fn main() {}
