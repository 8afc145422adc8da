//! Finds out whether the program's driver calls reach this crate.

use std::cell::Cell;
use std::ptr;

use cudarc::driver::sys;

thread_local! {
    /// Set while `why_not_in_place` calls `cuModuleLoadData`. Ours resets it.
    static PROBE: Cell<bool> = const { Cell::new(false) };
}

/// Why no module is adopted in a program whose cudarc opens the driver.
const NOT_LINKED: &str = "no module can be adopted in this program, because calls of the driver do not come to kernel-registry: this \
    works in programs for Linux that are linked with the driver, by cudarc's feature `dynamic-linking`; \
    `kernel-audit --preload` does it from outside, for any program";

/// Why no module is adopted by a library whose driver calls the loader has bound to another library with `adopt`.
const ELSEWHERE: &str = "no module can be adopted here, because calls of the driver come to another library of the process that has \
    kernel-registry with `adopt`, such as a plugin: load plugins without `RTLD_GLOBAL`, or leave out `adopt` in all but one";

/// Returns why the program's calls don't reach this crate: cudarc isn't linked with the driver's library, or the loader has bound
/// the calls to other functions than those of `calls`. Returns `None` if they do reach it.
pub(crate) fn why_not_in_place() -> Option<&'static str> {
    if !kernel_registry_cudarc::is_linked() {
        return Some(NOT_LINKED);
    }
    PROBE.set(true);
    // SAFETY: the function of `calls` notices that it is called, and the driver refuses to load nothing.
    let _ = unsafe { sys::cuModuleLoadData(ptr::null_mut(), ptr::null()) };
    PROBE.replace(false).then_some(ELSEWHERE)
}

/// Returns whether this call of `cuModuleLoadData` is the one of `why_not_in_place`, and resets the mark.
pub(super) fn take() -> bool {
    PROBE.replace(false)
}
