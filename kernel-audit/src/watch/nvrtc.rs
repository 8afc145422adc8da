//! NVRTC, which compiles CUDA in the process: what it compiles is recorded and kept, and what was kept is given back in its place.
//!
//! Programs call NVRTC by functions that the loader has linked, or that `dlsym` has returned. Where results are recorded or preloaded, `kernel-audit` puts
//! a library before all others (`LD_PRELOAD`) that has functions of these names, and `dlsym`. They jump to those in the [table](KERNEL_REGISTRY_NVRTC_TABLE).

mod clocks;
mod functions;
mod key;
mod library;
mod looking;
mod lookup;
mod programs;
mod record;
mod results;

use std::ffi::c_void;

use functions::{LINKED, hooks_of};
use library::FUNCTIONS;

/// How many functions the library before all others has.
const COUNT: usize = 1 + FUNCTIONS;

/// The addresses of `dlsym`, and of NVRTC's functions in the order of their names.
#[repr(transparent)]
pub struct Table([*const c_void; COUNT]);

// SAFETY: the addresses are those of functions, and are never changed.
unsafe impl Sync for Table {}

/// The addresses to which the functions of that library jump.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub static KERNEL_REGISTRY_NVRTC_TABLE: Table = {
    let mut all = [lookup::dlsym as *const c_void; COUNT];
    let hooks = hooks_of::<LINKED>();
    let mut index = 0;
    while index < FUNCTIONS {
        all[1 + index] = hooks[index];
        index += 1;
    }
    Table(all)
};
