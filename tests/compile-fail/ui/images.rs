//! Images that cannot be found or read.

mod file_missing {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(file = "cuda/spun.cu")]
    pub unsafe fn touch(out: *mut u32);
}

mod file_not_compiled {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(file = "cuda/spin.cu")]
    pub unsafe fn touch(out: *mut u32);
}

mod absolute {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "/opt/images/saxpy.ptx")]
    pub unsafe fn saxpy(n: u32);
}

mod and_file {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(file = "cuda/spin.cu", image = "images/saxpy.ptx")]
    pub unsafe fn saxpy(n: u32);
}

mod is_source {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "cuda/spin.cu")]
    pub unsafe fn touch(out: *mut u32);
}

mod missing {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/sazpy.ptx")]
    pub unsafe fn saxpy(n: u32);
}

mod not_an_image {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/notes.txt")]
    pub unsafe fn saxpy(n: u32);
}

mod not_text {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = saxpy)]
    pub unsafe fn saxpy(n: u32);
}

mod of_build_script {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "$OUT_DIR/saxpy.ptx")]
    pub unsafe fn saxpy(n: u32);
}

mod no_image {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel]
    pub unsafe fn saxpy(n: u32);
}

mod cut_off {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/cut.cubin")]
    pub unsafe fn touch(out: *mut u32);
}

fn main() {}
