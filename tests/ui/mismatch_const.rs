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

fn main() {}
