//! Libraries, which belong to the process and serve every context.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex};

use crate::driver::Library;
use crate::lock::lock;

/// A library, in whichever context: `load` is called once for an image and architecture, and again if that failed.
///
/// One library would serve all devices, but for one that is unlike the first the driver compiles it when a kernel is taken,
/// one after the other. A library for each architecture is compiled when it is loaded, on all cores.
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

/// What tells images from each other: the program has each of them once.
pub(crate) fn key(bytes: &'static [u8]) -> usize {
    ptr::from_ref(bytes).addr()
}
