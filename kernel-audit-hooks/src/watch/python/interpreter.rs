//! Finds the functions and the data of the Python interpreter in this process.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::Arc;

use crate::watch::loader::{mapped, symbols};
use crate::watch::process::locked::Locked;

/// The most frames that are kept.
pub(super) const MOST: usize = 32;

/// A frame of a Python function, at a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) file: Arc<str>,
    pub(crate) function: Arc<str>,
    pub(crate) line: u32,
}

/// The texts of frames, each once: many frames have the same.
#[derive(Default)]
pub(crate) struct Texts(HashSet<Arc<str>>);

impl Texts {
    pub(super) fn keep(&mut self, text: String) -> Arc<str> {
        /// More texts than a program's frames have at a time.
        const MOST: usize = 1 << 16;
        if let Some(kept) = self.0.get(&*text) {
            return kept.clone();
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let text = Arc::<str>::from(text);
        self.0.insert(text.clone());
        text
    }
}

/// Returns whether there is an interpreter that has begun and is not ending.
pub(super) fn runs() -> bool {
    ask(c"Py_IsInitialized") == Some(true) && is_ending() == Some(false)
}

/// Returns whether the interpreter is ending, if there is one: it has called the functions of `atexit`, and frees what is left.
pub(crate) fn is_ending() -> Option<bool> {
    ask(c"Py_IsFinalizing").or_else(|| ask(c"_Py_IsFinalizing"))
}

fn ask(name: &'static CStr) -> Option<bool> {
    // SAFETY: this is the type of the three functions, which only answer.
    unsafe { function::<unsafe extern "C" fn() -> c_int>(name).map(|ask| ask() != 0) }
}

/// A cache of addresses by name. It is valid as long as the same files are mapped.
#[derive(Default)]
struct Asked {
    files: (u64, u64),
    found: HashMap<&'static CStr, Option<u64>>,
}

/// Looks up a function of the interpreter in this process.
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

/// Returns the address of a function or a variable of the interpreter in this process.
pub(super) fn address(name: &'static CStr) -> Option<u64> {
    static ASKED: Locked<Asked> = Locked::new();
    let files = mapped::counts();
    let mut asked = ASKED.lock();
    if asked.files != files {
        *asked = Asked { files, found: HashMap::new() };
    }
    *asked.found.entry(name).or_insert_with(|| symbols::find(name))
}
