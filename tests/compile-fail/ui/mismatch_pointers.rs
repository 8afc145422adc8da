//! Pointers and slices that are not those of the image.

mod const_for_written {
    #![allow(non_camel_case_types)]

    use kernel_registry::{KernelParam, gpu_kernel};

    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Pair {
        pub a: f32,
        pub b: u32,
    }

    // SAFETY: two fields of four bytes, as in CUDA.
    unsafe impl KernelParam for Pair {}

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn pointers(
        input: *const f32,
        out: *const f32,
        any: *const core::ffi::c_void,
        numbers: *const i32,
        pairs: *mut Pair,
        rows: *mut *mut f32,
    );
}

mod const_pointer_for_written {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn pointers(
        a: &[f32],
        out: *const f32,
        any: *mut u8,
        numbers: &[i32],
        pairs: *mut u8,
        rows: *mut *mut f32,
    );
}

mod element_of_slice {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn pointers(
        a: &[f32],
        out: &mut [f32],
        any: *mut u8,
        numbers: &[u32],
        pairs: *mut u8,
        rows: *mut *mut f32,
    );
}

mod elements {
    #![allow(non_camel_case_types)]

    use kernel_registry::{KernelParam, gpu_kernel};

    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Pair {
        pub a: f32,
        pub b: u32,
    }

    // SAFETY: two fields of four bytes, as in CUDA.
    unsafe impl KernelParam for Pair {}

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn pointers(
        input: &[f64],
        out: &mut [u32],
        any: *mut u8,
        numbers: *const f32,
        pairs: &mut [Pair],
        rows: *mut *mut f32,
    );
}

mod all_pointers {
    #![allow(non_camel_case_types)]

    use kernel_registry::{KernelParam, gpu_kernel};

    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Pair {
        pub a: f32,
        pub b: u32,
    }

    // SAFETY: two fields of four bytes, as in CUDA.
    unsafe impl KernelParam for Pair {}

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn pointers(
        input: u32,
        out: &[f32],
        any: u64,
        numbers: &[u32],
        pairs: *const Pair,
        rows: Pair,
    );
}

mod slice_for_value {
    use kernel_registry::gpu_kernel;

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn one(n: &[u32]);
}

fn main() {}
