//! Looks up functions and variables of the Python interpreter in this process.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::Arc;

use crate::watch::loader::{mapped, symbols};
use crate::watch::process::locked::Locked;

/// Limits the number of frames returned.
pub(super) const MOST: usize = 32;

/// A Python frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) file: Arc<str>,
    pub(crate) function: Arc<str>,
    pub(crate) line: u32,
}

/// Interns names of files and functions, which many frames share.
#[derive(Default)]
pub(crate) struct Texts(HashSet<Arc<str>>);

impl Texts {
    pub(super) fn intern(&mut self, text: String) -> Arc<str> {
        /// An upper bound for the texts in a program's frames.
        const MOST: usize = 1 << 16;
        if let Some(known) = self.0.get(&*text) {
            return known.clone();
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let text = Arc::<str>::from(text);
        self.0.insert(text.clone());
        text
    }
}

/// Returns whether there's an interpreter that is initialized and isn't finalizing.
pub(super) fn is_running() -> bool {
    query(c"Py_IsInitialized") == Some(true) && is_finalizing() == Some(false)
}

/// Returns whether the interpreter is finalizing: it has run the `atexit` functions, and frees its objects.
/// `None` without an interpreter.
pub(crate) fn is_finalizing() -> Option<bool> {
    query(c"Py_IsFinalizing").or_else(|| query(c"_Py_IsFinalizing"))
}

fn query(name: &'static CStr) -> Option<bool> {
    // SAFETY: this is the type of the three functions, which have no side effects.
    unsafe { function::<unsafe extern "C" fn() -> c_int>(name).map(|query| query() != 0) }
}

/// Caches addresses by name, as long as the mapped files don't change.
#[derive(Default)]
struct AddressCache {
    files: (u64, u64),
    found: HashMap<&'static CStr, Option<u64>>,
}

/// Looks up a function of the interpreter.
///
/// # Safety
///
/// `F` is the type of a pointer to the function of this name.
pub(super) unsafe fn function<F: Copy>(name: &'static CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let function = ptr::with_exposed_provenance_mut::<c_void>(address(name)? as usize);
    // SAFETY: the caller's promise, and both are one pointer wide.
    Some(unsafe { mem::transmute_copy(&function) })
}

/// Looks up the address of a function or a variable of the interpreter.
pub(super) fn address(name: &'static CStr) -> Option<u64> {
    static CACHE: Locked<AddressCache> = Locked::new();
    let files = mapped::counts();
    let mut cache = CACHE.lock();
    if cache.files != files {
        *cache = AddressCache { files, found: HashMap::new() };
    }
    *cache.found.entry(name).or_insert_with(|| symbols::find(name))
}
