//! Calls functions of an audit (kernel-audit), a library in front of the driver. Without an audit, nothing happens.

use std::ffi::CStr;

use super::{Driver, OLDEST, lookup};

type Ready = unsafe extern "C" fn();

impl Driver {
    /// Tells an audit that the program uses this crate.
    pub(super) fn tell_audit(&self) {
        // SAFETY: `Ready` is the type of this function.
        if let Some(attach) = unsafe { self.find_of_audit::<Ready>(c"kernel_registry_audit_attach") } {
            // SAFETY: this function may be called at any time.
            unsafe { attach() }
        }
    }

    /// Tells an audit that the program is ready.
    pub(crate) fn mark_ready(&self) {
        // SAFETY: `Ready` is the type of this function.
        if let Some(ready) = unsafe { self.find_of_audit::<Ready>(c"kernel_registry_audit_ready") } {
            // SAFETY: this function may be called at any time.
            unsafe { ready() }
        }
    }

    /// Looks up a function that only an audit has.
    ///
    /// # Safety
    ///
    /// `F` is the type of the function.
    pub unsafe fn find_of_audit<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the caller's promise.
        let found = unsafe { lookup::<F>(name, OLDEST, self.version) };
        // A failed lookup means that there is no audit.
        found.ok().flatten()
    }
}
