//! A library opened by `dlopen`.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

/// An open library, which is closed on drop.
pub(crate) struct Library(*mut c_void);

// SAFETY: the loader's handles may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Opens a library, or returns the loader's message.
    pub(crate) fn open(name: &CStr, flags: c_int) -> Result<Library, String> {
        // SAFETY: callers open a driver or parts of NVRTC, which run no other initializers than in any
        // program that uses them, or a stub without code.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        if !handle.is_null() {
            return Ok(Library(handle));
        }
        // SAFETY: the message is this thread's, or null if `RTLD_NOLOAD` didn't find the library open.
        let text = unsafe { libc::dlerror().as_ref() };
        // SAFETY: messages end with a zero.
        Err(text
            .map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
            .unwrap_or_default())
    }

    pub(crate) fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is that of an open library, and the name ends with a zero.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }

    /// Returns the path of the library's file.
    pub(crate) fn path(&self) -> PathBuf {
        let Some(map) = self.map() else { return PathBuf::new() };
        // SAFETY: the text ends with a zero, and lives as long as the library is open.
        OsStr::from_bytes(unsafe { CStr::from_ptr(map.name) }.to_bytes()).into()
    }

    /// Returns the load bias, which the loader adds to the addresses in the file.
    pub(crate) fn base(&self) -> u64 {
        self.map().map_or(0, |map| map.offset as u64)
    }

    fn map(&self) -> Option<&LinkMap> {
        let mut map: *const LinkMap = ptr::null();
        // SAFETY: the request stores the address of a `LinkMap`, which lives as long as the library is open.
        unsafe {
            let found = libc::dlinfo(self.0, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) == 0;
            if found { map.as_ref() } else { None }
        }
    }
}

/// The first fields of glibc's `struct link_map`.
#[repr(C)]
struct LinkMap {
    offset: usize,
    name: *const c_char,
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nothing in the library is used afterwards.
        unsafe { libc::dlclose(self.0) };
    }
}
