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

fn main() {}
