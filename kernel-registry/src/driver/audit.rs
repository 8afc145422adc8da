//! An audit in front of the driver (kernel-audit), which has functions of its own. Without one, nothing happens.

use std::ffi::CStr;

use super::{Driver, OLDEST, lookup};

type Ready = unsafe extern "C" fn();

impl Driver {
    /// Tells an audit that the program uses this crate.
    pub(super) fn attach(&self) {
        // SAFETY: this is its type.
        if let Some(attach) = unsafe { self.find_of_audit::<Ready>(c"kernel_registry_audit_attach") } {
            // SAFETY: it may be called at any time.
            unsafe { attach() }
        }
    }

    /// Tells an audit that the program is ready.
    pub(crate) fn mark_ready(&self) {
        // SAFETY: this is its type.
        if let Some(ready) = unsafe { self.find_of_audit::<Ready>(c"kernel_registry_audit_ready") } {
            // SAFETY: it may be called at any time.
            unsafe { ready() }
        }
    }

    /// A function that only an audit has.
    ///
    /// # Safety
    ///
    /// `F` is its type.
    pub unsafe fn find_of_audit<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the caller's promise.
        let found = unsafe { lookup::<F>(name, OLDEST, self.version) };
        // A lookup that fails found no audit.
        found.ok().flatten()
    }
}
