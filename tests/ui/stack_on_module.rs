use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx", stack = 16 * 1024)]
mod blas1 {
    pub unsafe fn saxpy(n: u32);
}

fn main() {}
