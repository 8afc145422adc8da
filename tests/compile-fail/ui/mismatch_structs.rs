//! Structs, whose sizes only the compiler knows, beside numbers that the macro compares.

mod structs {
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

    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Small(f32);

    // SAFETY: as long as nobody launches with it.
    unsafe impl KernelParam for Small {}

    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Unaligned([f32; 4]);

    // SAFETY: as long as nobody launches with it.
    unsafe impl KernelParam for Unaligned {}

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn structs(pair: Small, wide: Unaligned, mode: u64);

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn plain(n: u32, x: *const f32, pair: Small);
}

mod values {
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
    pub unsafe fn floats(a: *const f32, b: &[f64]);

    #[gpu_kernel(image = "images/types.ptx")]
    pub unsafe fn one(n: Pair);
}

fn main() {}
