//! Finds out whether the program's calls of the driver come to this crate.

use std::cell::Cell;
use std::ptr;

use cudarc::driver::sys;

thread_local! {
    /// Set while `is_in_place` calls `cuModuleLoadData`, which takes it.
    static PROBE: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the program's calls come here: whether cudarc is linked with the driver's library, and the linker has taken the
/// functions of `calls`.
pub(crate) fn is_in_place() -> bool {
    if !kernel_registry_cudarc::is_linked() {
        return false;
    }
    PROBE.set(true);
    // SAFETY: the function of `calls` notices that it is called, and the driver refuses to load nothing.
    let _ = unsafe { sys::cuModuleLoadData(ptr::null_mut(), ptr::null()) };
    !PROBE.replace(false)
}

/// Returns whether this call of `cuModuleLoadData` is that of `is_in_place`.
pub(super) fn take() -> bool {
    PROBE.replace(false)
}
