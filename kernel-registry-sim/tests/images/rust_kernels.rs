// Kernels whose body is Rust, and just enough of a core library for them, so that rustc alone makes rust_kernels.ptx:
//
// RUSTC_BOOTSTRAP=1 rustc --edition 2024 --target nvptx64-nvidia-cuda -O -C target-cpu=sm_75 --emit=asm rust_kernels.rs
#![feature(no_core, lang_items, abi_ptx, rustc_attrs, intrinsics, link_llvm_intrinsics)]
#![no_core]
#![crate_type = "lib"]
#![allow(internal_features, improper_ctypes, improper_ctypes_definitions)]

/// `y[i] = a * x[i]`, as far as both go. rustc passes a slice as one parameter.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn scale(a: f32, x: &[f32], y: &mut [f32]) {
    unsafe {
        let (x, y) = (transmute::<_, Slice>(x), transmute::<_, Slice>(y));
        one(a, x.data, x.len, y.data, y.len);
    }
}

/// `scale` with addresses and lengths one by one, as cuda-oxide passes slices.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn scale_in_parts(
    a: f32,
    x: *const f32,
    x_len: usize,
    y: *mut f32,
    y_len: usize,
) {
    unsafe { one(a, x, x_len, y, y_len) }
}

#[inline(always)]
unsafe fn one(a: f32, x: *const f32, x_len: usize, y: *const f32, y_len: usize) {
    unsafe {
        let i = (block() * block_size() + thread()) as usize;
        if i < x_len {
            if i < y_len {
                *(offset(y, i) as *mut f32) = a * *offset(x, i);
            }
        }
    }
}

#[repr(C)]
struct Slice {
    data: *const f32,
    len: usize,
}

unsafe extern "C" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.x"]
    safe fn thread() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.x"]
    safe fn block_size() -> i32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.x"]
    safe fn block() -> i32;
}

#[rustc_intrinsic]
unsafe fn transmute<A, B>(value: A) -> B;
#[rustc_intrinsic]
unsafe fn offset<P, I>(pointer: P, index: I) -> P;

#[lang = "pointee_sized"]
pub trait PointeeSized {}
#[lang = "meta_sized"]
pub trait MetaSized: PointeeSized {}
#[lang = "sized"]
pub trait Sized: MetaSized {}
#[lang = "copy"]
pub trait Copy {}
impl Copy for f32 {}
impl Copy for i32 {}
impl Copy for usize {}
impl<T: PointeeSized> Copy for *const T {}
impl<T: PointeeSized> Copy for *mut T {}
#[lang = "mul"]
pub trait Mul<R = Self> {
    type Output;
    fn mul(self, other: R) -> Self::Output;
}
impl Mul for f32 {
    type Output = f32;
    fn mul(self, other: f32) -> f32 {
        self * other
    }
}
impl Mul for i32 {
    type Output = i32;
    fn mul(self, other: i32) -> i32 {
        self * other
    }
}
#[lang = "add"]
pub trait Add<R = Self> {
    type Output;
    fn add(self, other: R) -> Self::Output;
}
impl Add for i32 {
    type Output = i32;
    fn add(self, other: i32) -> i32 {
        self + other
    }
}
#[lang = "legacy_receiver"]
pub trait LegacyReceiver {}
impl<T: PointeeSized> LegacyReceiver for &T {}
#[lang = "eq"]
pub trait PartialEq<R: PointeeSized = Self>: PointeeSized {
    fn eq(&self, other: &R) -> bool;
}
#[lang = "partial_ord"]
pub trait PartialOrd<R: PointeeSized = Self>: PointeeSized {
    fn lt(&self, other: &R) -> bool;
}
impl PartialOrd for usize {
    fn lt(&self, other: &usize) -> bool {
        *self < *other
    }
}
