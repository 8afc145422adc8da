//! A file in memory, without reading what nobody looks at.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::failure::Failure;

pub(crate) struct Mapped(Mmap);

impl Mapped {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let failure = |error| Failure::of_io(path.to_owned(), error);
        let file = File::open(path).map_err(failure)?;
        // A folder opens, but does not map; and what is not a file has no fixed bytes.
        if !file.metadata().map_err(failure)?.is_file() {
            return Err(Failure::NotABinary { path: path.to_owned() });
        }
        // SAFETY: the bytes are only ever read, and decoded without trust in what they say. Somebody who
        // rewrites the file meanwhile changes them under us, as the compiler may not assume; tools
        // that write binaries make a new file instead, and this process only prints what it read.
        unsafe { Mmap::map(&file) }.map(Mapped).map_err(failure)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
