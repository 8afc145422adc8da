//! Marks stretches of time, of which the record says where they went.

use std::ffi::{CStr, c_char};

use crate::options::Audit;
use crate::watch::stretch;

/// Begins a stretch of this name, and ends the one before. Null or an empty name only ends.
///
/// # Safety
///
/// `name` is null, or ends with a zero.
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub unsafe extern "C" fn kernel_registry_audit_mark(name: *const c_char) {
    if Audit::chosen().first.is_none() || !super::prepare() {
        return;
    }
    // SAFETY: the caller's promise.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy());
    stretch::begin(name.as_deref().unwrap_or_default());
}
