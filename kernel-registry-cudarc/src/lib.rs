//! Checks that cudarc has bindings for CUDA 12.0 or newer, and whether there is a driver. This is a separate crate, so that the
//! check ends the build before crates are compiled that call functions which older bindings lack.

use cudarc::driver::sys::CUDA_VERSION;

const _: () = assert!(
    CUDA_VERSION >= 12_000,
    "cudarc has bindings of a CUDA older than 12.0, which lack functions that kernel-registry calls. \
     They are those of the nvcc on the path, of a feature of cudarc, or of the variable CUDARC_CUDA_VERSION. \
     Set CUDARC_CUDA_VERSION=12000 for the build, which needs no other nvcc, or name a newer feature, such as `cuda-12000`."
);

/// Loads the driver's library, and returns whether it was found. Always true in a program that is linked with that library: without
/// the library such a program does not start.
///
/// ```
/// if !kernel_registry_cudarc::has_driver() {
///     println!("no CUDA driver");
/// }
/// ```
pub fn has_driver() -> bool {
    // If cudarc loads the library at run time, its `is_culib_present` is imported here and hides the function below. If cudarc is
    // linked with the library, cudarc has no such function, and the function below is called.
    #[allow(unused_imports)]
    use cudarc::driver::sys::*;

    // SAFETY: this loads the driver's library, whose initialisers may run at any time.
    unsafe { is_culib_present() }
}

/// Replaces cudarc's function of this name where cudarc is linked with the driver's library.
///
/// # Safety
///
/// There is no condition. The function is unsafe so that it has the same type as cudarc's function.
#[allow(dead_code)]
unsafe fn is_culib_present() -> bool {
    true
}

/// Returns whether cudarc is linked with the driver's library, and does not load it at run time.
///
/// ```
/// let _ = kernel_registry_cudarc::is_linked();
/// ```
pub const fn is_linked() -> bool {
    // As above: if cudarc loads the library, it has a function `culib`, which returns a reference and hides the function below.
    #[allow(unused_imports)]
    use cudarc::driver::sys::*;

    const fn returns_nothing<T>(_: unsafe fn() -> T) -> bool {
        size_of::<T>() == 0
    }
    returns_nothing(culib)
}

/// Stands for cudarc's function of this name where cudarc is linked with the driver's library.
///
/// # Safety
///
/// There is no condition. The function is unsafe so that it has the same type as cudarc's function.
#[allow(dead_code)]
unsafe fn culib() {}
