//! Finds the Python interpreter in this process, and its functions.

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::os::fd::RawFd;
use std::{mem, ptr};

use crate::watch::loader::{mapped, symbols};
use crate::watch::process::locked::Locked;
use crate::watch::record::recording;

/// The most frames that are kept.
pub(super) const MOST: usize = 32;

/// A file size in bytes that holds everything an interpreter writes: a hundred frames with two texts of 500
/// characters, each character of ten bytes at most.
const WRITTEN: usize = 1 << 21;

/// A frame of a Python function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) function: String,
}

/// An interpreter in this process.
#[derive(Clone, Copy)]
pub(crate) struct Interpreter {
    write: unsafe extern "C" fn(c_int, *mut c_void),
    thread: unsafe extern "C" fn() -> *mut c_void,
}

impl Interpreter {
    /// Returns the interpreter, if one runs that has the function.
    pub(crate) fn find() -> Option<Self> {
        // SAFETY: these are the types of CPython's functions of these names.
        let (write, thread) =
            unsafe { (function(c"_Py_DumpTraceback")?, function(c"PyGILState_GetThisThreadState")?) };
        // A signal can end a process that writes a larger file than it may, also in memory.
        (runs() && recording::may_be(WRITTEN)).then_some(Interpreter { write, thread })
    }

    /// Returns whether both have the same functions. A program can close one interpreter and open another.
    pub(crate) fn is(self, other: Self) -> bool {
        let addresses = |its: Self| (its.write as *const c_void, its.thread as *const c_void);
        addresses(self) == addresses(other)
    }

    /// Writes the frames of this thread into a file, if the thread has any.
    pub(crate) fn write(self, file: RawFd) {
        // SAFETY: the function returns this thread's state, or null. The thread is in this call, so its frames do not
        // change meanwhile.
        unsafe {
            let thread = (self.thread)();
            if !thread.is_null() {
                (self.write)(file, thread);
            }
        }
    }
}

/// Returns whether there is an interpreter that has begun and is not ending.
pub(super) fn runs() -> bool {
    type Ask = unsafe extern "C" fn() -> c_int;
    // SAFETY: this is the type of the three functions, which only answer.
    let ask = |name| unsafe { function::<Ask>(name).map(|ask| ask() != 0) };
    let is_ending = || ask(c"Py_IsFinalizing").or_else(|| ask(c"_Py_IsFinalizing"));
    ask(c"Py_IsInitialized") == Some(true) && is_ending() == Some(false)
}

/// The functions that were looked up. They are kept as long as the same files are mapped.
#[derive(Default)]
struct Asked {
    files: (u64, u64),
    found: HashMap<&'static CStr, Option<usize>>,
}

/// Looks up a function of the interpreter in this process.
///
/// # Safety
///
/// `F` is the type of a pointer to the function of this name.
pub(super) unsafe fn function<F: Copy>(name: &'static CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the caller's promise, and both are one pointer wide.
    symbol(name).map(|address| unsafe { mem::transmute_copy(&address) })
}

fn symbol(name: &'static CStr) -> Option<*mut c_void> {
    static ASKED: Locked<Asked> = Locked::new();
    let files = mapped::counts();
    let mut asked = ASKED.lock();
    if asked.files != files {
        *asked = Asked { files, found: HashMap::new() };
    }
    let find = || symbols::find(name).map(|address| address as usize);
    asked.found.entry(name).or_insert_with(find).map(ptr::with_exposed_provenance_mut)
}
