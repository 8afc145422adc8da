use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
mod blas1 {
    pub unsafe fn saxpy(n: u32);

    pub const KERNELS: u32 = 1;
}

fn main() {}
