//! What registers itself before `main`, or when a shared library is loaded: kernels and functions with `#[warmup]`.
//!
//! Each has a [`Constructor`] in the section of functions that the system runs then: see `__constructor!`. They are not
//! collected by the crate `inventory`, whose expansion takes the compiler a third of a millisecond more for each kernel.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::hook::Hook;
use crate::{Kernel, KernelInfo};

/// A function that the system runs when it has loaded the file that contains it.
pub type Constructor = extern "C" fn();

static KERNELS: Mutex<Vec<&'static KernelInfo>> = Mutex::new(Vec::new());
static HOOKS: Mutex<Vec<&'static Hook>> = Mutex::new(Vec::new());

/// The constructor of a kernel.
pub extern "C" fn register<K: Kernel>() {
    register_kernel(K::INFO);
}

/// Not inlined, because there is a constructor for each kernel.
#[inline(never)]
fn register_kernel(kernel: &'static KernelInfo) {
    lock(&KERNELS).push(kernel);
}

/// For the constructor of a function with `#[warmup]`.
#[inline(never)]
pub fn register_hook(hook: &'static Hook) {
    lock(&HOOKS).push(hook);
}

/// How many kernels there are.
pub(crate) fn count() -> usize {
    lock(&KERNELS).len()
}

/// All kernels, in no order.
pub(crate) fn kernels() -> Vec<&'static KernelInfo> {
    lock(&KERNELS).clone()
}

/// All functions with `#[warmup]`, in no order.
pub(crate) fn hooks() -> Vec<&'static Hook> {
    lock(&HOOKS).clone()
}

/// Nothing panics while one of the lists is locked.
fn lock<T>(list: &'static Mutex<Vec<T>>) -> MutexGuard<'static, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a function run when the file is loaded. Every object format has its own name for the section of such functions.
#[doc(hidden)]
#[macro_export]
macro_rules! __constructor {
    ($function:expr) => {
        #[used]
        #[cfg_attr(
            not(any(windows, target_vendor = "apple", target_family = "wasm")),
            unsafe(link_section = ".init_array")
        )]
        #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func,mod_init_funcs"))]
        #[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
        static __CONSTRUCTOR: $crate::__private::Constructor = $function;
    };
}
