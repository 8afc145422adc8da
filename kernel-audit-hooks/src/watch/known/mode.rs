//! Asks when the driver loads kernels: with their images, or at their first launch.

use std::ffi::c_int;

use cudarc::driver::sys::CUresult;

use crate::watch::loader::real::{Function, stored};
use crate::watch::process::fork;

/// Returns whether kernels are loaded with their images. The driver reads the variable `CUDA_MODULE_LOADING` only
/// once.
pub(crate) fn is_eager() -> bool {
    type GetMode = unsafe extern "C" fn(*mut c_int) -> CUresult;
    // SAFETY: this is the type of the function of that name.
    static GET_MODE: Function<GetMode> = unsafe { Function::new(c"cuModuleGetLoadingMode") };
    static EAGER: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let ask = || {
        // A driver before CUDA 11.7 always loads kernels with their images.
        let Some(get_mode) = GET_MODE.get() else { return true };
        // SAFETY: the call stores a number.
        stored(0, |mode| unsafe { get_mode(mode) }) == Some(1)
    };
    *fork::once(&EAGER, ask)
}
