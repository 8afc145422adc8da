//! Hooks `cuGetProcAddress`: most programs get the driver's functions from it, so it returns our hooks.

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use cudarc::driver::sys::CUresult;

use crate::record::{Kind, Subject};
use crate::watch::loader::real;
use crate::watch::preload::kernel_registry_audit_preload;
use crate::watch::process::locked::Locked;
use crate::watch::record::call::{self, Hook};
use crate::watch::record::feed::kernel_registry_audit_event;
use crate::watch::record::new_event::NewEvent;
use crate::watch::record::ready::{kernel_registry_audit_attach, kernel_registry_audit_ready};
use crate::watch::record::recording::{kernel_registry_audit_record, now, write_event};
use crate::watch::section::{kernel_registry_audit_section_begin, kernel_registry_audit_section_end};
use crate::watch::stretch::kernel_registry_audit_mark;

/// The newest CUDA version whose functions the table of hooks knows.
const NEWEST: c_int = 13_000;

/// The names of the audit's own functions.
pub(crate) const READY: &CStr = c"kernel_registry_audit_ready";
pub(crate) const RECORD: &CStr = c"kernel_registry_audit_record";
const ATTACH: &CStr = c"kernel_registry_audit_attach";
const BEGIN: &CStr = c"kernel_registry_audit_section_begin";
const END: &CStr = c"kernel_registry_audit_section_end";
const PRELOAD: &CStr = c"kernel_registry_audit_preload";
pub(crate) const MARK: &CStr = c"kernel_registry_audit_mark";
const EVENT: &CStr = c"kernel_registry_audit_event";

/// Lists the audit's own functions. A driver does not have them, so they also tell an audit from a driver.
pub(crate) fn own() -> [(&'static CStr, *const c_void); 8] {
    [
        (READY, kernel_registry_audit_ready as *const c_void),
        (RECORD, kernel_registry_audit_record as *const c_void),
        (ATTACH, kernel_registry_audit_attach as *const c_void),
        (BEGIN, kernel_registry_audit_section_begin as *const c_void),
        (END, kernel_registry_audit_section_end as *const c_void),
        (PRELOAD, kernel_registry_audit_preload as *const c_void),
        (MARK, kernel_registry_audit_mark as *const c_void),
        (EVENT, kernel_registry_audit_event as *const c_void),
    ]
}

/// The flag that asks for functions with per-thread default streams.
const PER_THREAD: u64 = 2;

/// Replaces the driver's function by its hook, if there is a hook for this version.
///
/// # Safety
///
/// `result` is what the driver's `cuGetProcAddress` returned; the other arguments are those of that call.
pub(crate) unsafe fn replace(
    result: CUresult,
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> CUresult {
    if symbol.is_null() || function.is_null() {
        return result;
    }
    // SAFETY: the name ends with a zero, as the driver requires.
    let symbol = unsafe { CStr::from_ptr(symbol) };
    // kernel-registry asks the driver for the audit's own functions.
    if let Some((_, own)) = own().into_iter().find(|(name, _)| *name == symbol) {
        // SAFETY: `function` has room for the answer.
        unsafe { *function = own.cast_mut() };
        return CUresult::CUDA_SUCCESS;
    }
    if result != CUresult::CUDA_SUCCESS {
        return result;
    }
    // SAFETY: the driver has stored its answer.
    let (symbol, theirs) = unsafe { (symbol.to_string_lossy(), *function) };
    if theirs.is_null() {
        return result;
    }
    let is_there = |hook: &Hook| !symbol_of(hook).is_null();
    match find(call::list_hooks(), &symbol, version, flags & PER_THREAD != 0, is_there) {
        // For a version above `NEWEST` the name can mean a function of another type.
        Some(hook) if version <= NEWEST || is_exported(hook, theirs) => {
            // SAFETY: as above.
            unsafe { *function = hook.address.cast_mut() }
        }
        Some(_) => unwatched(&symbol, version),
        None => {}
    }
    result
}

/// Finds the hook that a name means for a version, among the hooks whose function the driver has.
fn find(
    hooks: &'static [Hook],
    symbol: &str,
    version: c_int,
    per_thread: bool,
    is_there: impl Fn(&Hook) -> bool,
) -> Option<&'static Hook> {
    let named = || hooks.iter().filter(|hook| hook.base == symbol && hook.since <= version && is_there(hook));
    // Functions without streams have one variant.
    let newest = |wanted| named().filter(|hook| hook.per_thread == wanted).max_by_key(|hook| hook.since);
    if per_thread { newest(true).or_else(|| newest(false)) } else { newest(false) }
}

/// Returns whether the driver exports this very function under the hook's name.
fn is_exported(hook: &Hook, theirs: *mut c_void) -> bool {
    symbol_of(hook) == theirs
}

/// Returns the driver's function of the hook's name, or null.
fn symbol_of(hook: &Hook) -> *mut c_void {
    CString::new(hook.name).map_or(ptr::null_mut(), |name| real::symbol(&name))
}

/// The names of functions that were asked for and are not watched.
static UNWATCHED: Locked<HashSet<String>> = Locked::new();

/// Records, once for each name, that a function is not watched.
fn unwatched(symbol: &str, version: c_int) {
    if !UNWATCHED.lock().insert(symbol.to_owned()) {
        return;
    }
    let (kind, cuda) = (Kind::Unwatched, u64::try_from(version).unwrap_or(0));
    let subject = Subject::Function { name: symbol, cuda };
    write_event(NewEvent { kind, call: symbol, subject, begun: now(), ..NewEvent::default() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::hooks::HOOKS;

    fn found(symbol: &str, version: c_int, per_thread: bool) -> Option<&'static str> {
        find(HOOKS, symbol, version, per_thread, |_| true).map(|hook| hook.name)
    }

    #[test]
    fn names_mean_what_they_meant_in_a_version() {
        assert_eq!(found("cuMemFree", 12_000, false), Some("cuMemFree_v2"));
        assert_eq!(found("cuMemFree", 3_010, false), None);
        assert_eq!(found("cuLaunchKernel", 13_000, true), Some("cuLaunchKernel_ptsz"));
        assert_eq!(found("cuMemcpyDtoH", 13_000, true), Some("cuMemcpyDtoH_v2_ptds"));
        assert_eq!(found("cuMemFree", 13_000, true), Some("cuMemFree_v2"));
        assert_eq!(found("cuGetProcAddress", 11_080, false), Some("cuGetProcAddress"));
        assert_eq!(found("cuGetProcAddress", 12_000, false), Some("cuGetProcAddress_v2"));
        assert_eq!(found("cuMemGetInfo", 12_000, false), None);
        assert_eq!(found("cuCtxSynchronize", 12_000, false), Some("cuCtxSynchronize"));
        assert_eq!(found("cuCtxSynchronize", 13_000, false), Some("cuCtxSynchronize_v2"));
    }
}
