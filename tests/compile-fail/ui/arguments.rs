//! Arguments of the attribute.

mod arch {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", arch = "sm_80")]
    pub unsafe fn a(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", arch = 80)]
    pub unsafe fn b(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", arch = ">=8")]
    pub unsafe fn c(n: u32);
}

mod argument_syntax {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx" block = 256, "name")]
    pub unsafe fn saxpy(n: u32);
}

mod argument_twice {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", block = 256, block = 128)]
    pub unsafe fn saxpy(n: u32);
}

mod argument_without_value {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", block, name)]
    pub unsafe fn saxpy(n: u32);
}

mod block_bounds {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", block = 2048)]
    pub unsafe fn a(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", block = (32, 64))]
    pub unsafe fn b(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", block = (8, 0, 128))]
    pub unsafe fn c(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", block = (1, 1, 1, 1))]
    pub unsafe fn d(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", block = "256")]
    pub unsafe fn e(n: u32);
}

mod crate_path {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", crate = "kernel_registry")]
    pub unsafe fn saxpy(n: u32);
}

mod module_name_argument {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", name = "saxpy", type = Saxpy)]
    mod blas1 {
        pub unsafe fn saxpy(n: u32);
    }
}

mod name {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", name = "saxpy(int)")]
    pub unsafe fn a(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", name = "")]
    pub unsafe fn b(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", name = saxpy)]
    pub unsafe fn c(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn größe(n: u32);
}

mod shared {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", shared = -1)]
    pub unsafe fn a(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", shared = 5_000_000_000)]
    pub unsafe fn b(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", shared = "48 KiB")]
    pub unsafe fn c(n: u32);
}

mod stack {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", stack = -1)]
    pub unsafe fn a(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", stack = 524_289)]
    pub unsafe fn b(n: u32);

    #[gpu_kernel(image = "images/saxpy.ptx", stack = "16 KiB")]
    pub unsafe fn c(n: u32);
}

mod stack_on_module {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", stack = 16 * 1024)]
    mod blas1 {
        pub unsafe fn saxpy(n: u32);
    }
}

mod type_argument {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", type = "Saxpy")]
    pub unsafe fn saxpy(n: u32);
}

mod unknown_argument {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx", blok = 256, grid = 4)]
    pub unsafe fn saxpy(n: u32);
}

fn main() {}
