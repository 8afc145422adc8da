use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
mod blas1 {
    pub fn a(n: u32);

    #[gpu_kernel(blok = 1)]
    pub unsafe fn b(x: &f32);

    pub mod inner {
        pub unsafe fn c(n: u32) -> u32;
    }
}

fn main() {}
