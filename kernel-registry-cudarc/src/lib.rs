//! What kernel-registry asks of cudarc. It is a crate of its own, because an error in it ends the build before those crates are compiled
//! that would not find half of the driver's functions.

use cudarc::driver::sys::CUDA_VERSION;

const _: () = assert!(
    CUDA_VERSION >= 12_000,
    "cudarc has bindings of a CUDA older than 12.0, which lack functions that kernel-registry calls. \
     They are those of the nvcc on the path, of a feature of cudarc, or of the variable CUDARC_CUDA_VERSION. \
     Set CUDARC_CUDA_VERSION=12000 for the build, which needs no other nvcc, or name a newer feature, such as `cuda-12000`."
);

/// Whether the driver's library is there. A program that is linked with it has it, or does not start. Loads the library.
///
/// ```
/// if !kernel_registry_cudarc::has_driver() {
///     println!("no CUDA driver");
/// }
/// ```
pub fn has_driver() -> bool {
    // cudarc has a function of this name only if it opens the library by itself. Then it hides the one below.
    #[allow(unused_imports)]
    use cudarc::driver::sys::*;

    // SAFETY: this loads the driver's library, whose initialisers may run at any time.
    unsafe { is_culib_present() }
}

/// In place of cudarc's, where cudarc is linked with the driver.
///
/// # Safety
///
/// Nothing is asked: it has the type of cudarc's.
#[allow(dead_code)]
unsafe fn is_culib_present() -> bool {
    true
}
