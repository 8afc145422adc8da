//! Opens libraries by the loader.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

/// An open library. Dropping this value closes the library.
pub(crate) struct Library(*mut c_void);

// SAFETY: the loader's handles may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Opens a library, or returns the loader's message.
    pub(crate) fn open(name: &CStr, flags: c_int) -> Result<Library, String> {
        // SAFETY: the library is a driver, and loading a driver does what every program that uses a GPU does; or a
        // stub, which has no code.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        if !handle.is_null() {
            return Ok(Library(handle));
        }
        // SAFETY: the message is this thread's last message, or null: that a library is not open is no error.
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

    /// Returns the file that the loader found.
    pub(crate) fn path(&self) -> PathBuf {
        let Some(map) = self.map() else { return PathBuf::new() };
        // SAFETY: the text ends with a zero, and is there as long as the library is open.
        OsStr::from_bytes(unsafe { CStr::from_ptr(map.name) }.to_bytes()).into()
    }

    /// Returns the load bias, which is added to the addresses in the file.
    pub(crate) fn base(&self) -> u64 {
        self.map().map_or(0, |map| map.offset as u64)
    }

    fn map(&self) -> Option<&LinkMap> {
        let mut map: *const LinkMap = ptr::null();
        // SAFETY: the request stores the address of a `LinkMap`, which stays as long as the library is open.
        unsafe {
            let found = libc::dlinfo(self.0, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) == 0;
            if found { map.as_ref() } else { None }
        }
    }
}

/// The beginning of glibc's `struct link_map`.
#[repr(C)]
struct LinkMap {
    offset: usize,
    name: *const c_char,
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nothing of the library is used afterwards.
        unsafe { libc::dlclose(self.0) };
    }
}
