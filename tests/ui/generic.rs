use kernel_registry::gpu_kernel;

#[gpu_kernel(image = "images/saxpy.ptx")]
pub unsafe fn saxpy<'a, T: Copy, const N: usize>(x: &[T])
where
    T: Send;

fn main() {}
