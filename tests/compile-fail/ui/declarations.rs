//! Declarations that say more than a kernel's type.

mod attribute_twice {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn saxpy(n: u32);
}

mod with_body {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn saxpy(n: u32) {
        let _ = n;
    }
}

mod generic {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn saxpy<'a, T: Copy, const N: usize>(x: &[T])
    where
        T: Send;
}

mod host_attributes {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    #[inline]
    #[unsafe(no_mangle)]
    #[derive(Clone)]
    #[test]
    pub unsafe fn saxpy(n: u32);
}

mod on_extern_block {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    unsafe extern "C" {
        fn saxpy(n: u32);
    }
}

mod on_struct {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub struct Saxpy;
}

mod parameter_attribute {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn saxpy(#[allow(unused)] n: u32);
}

mod patterns {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn saxpy(_: u32, mut n: u32, (a, b): u32, ref r: u32);
}

mod receiver {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn saxpy(&self, n: u32);
}

mod repeated_parameter {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn saxpy(n: u32, x: &[f32], n: u32);
}

mod returns {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub unsafe fn saxpy(n: u32) -> f32;
}

mod safe_fn {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/saxpy.ptx")]
    pub fn saxpy(n: u32);
}

fn main() {}
