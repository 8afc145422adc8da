//! Loaded libraries, which belong to the process and serve every context.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex};

use crate::driver::Library;
use crate::lock::lock;

/// The library of an image for an architecture. Calls `load` the first time, and again if that failed.
///
/// One library could serve all devices. But for a device unlike the first, the driver would compile it when kernels are
/// resolved, one after the other. A library per architecture is compiled when it is loaded, on all cores.
pub(crate) fn library<E>(
    image: &'static [u8],
    arch: u32,
    load: impl FnOnce() -> Result<Library, E>,
) -> Result<Library, E> {
    type Cell = Arc<Mutex<Option<Library>>>;
    static LIBRARIES: Mutex<Option<HashMap<(usize, u32), Cell>>> = Mutex::new(None);
    let cell = lock(&LIBRARIES).get_or_insert_default().entry((key(image), arch)).or_default().clone();
    let mut library = lock(&cell);
    match *library {
        Some(library) => Ok(library),
        None => Ok(*library.insert(load()?)),
    }
}

/// Identifies an image by its address: the program contains each image once.
pub(crate) fn key(bytes: &'static [u8]) -> usize {
    ptr::from_ref(bytes).addr()
}
