//! Blocks and shared memory beyond what the image was compiled for.

mod block {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", block = 256)]
    pub unsafe fn bounded(n: u32);

    #[gpu_kernel(image = "images/types.ptx", block = (16, 16), name = "bounded")]
    pub unsafe fn square(n: u32);
}

mod shared {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx", shared = 65536)]
    pub unsafe fn one(n: u32);

    #[gpu_kernel(image = "images/types.ptx", name = "one", arch = ">=75", shared = 65537)]
    pub unsafe fn turing(n: u32);

    #[gpu_kernel(image = "images/types.ptx", name = "one", arch = ">=90", shared = 300_000)]
    pub unsafe fn nobody(n: u32);
}

fn main() {}
