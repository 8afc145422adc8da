//! Maps a file into memory, so that only the pages in use are read.

use std::fs::{self, File};
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::failure::Failure;

/// The bytes of a mapped file.
pub struct Mapped(Mmap);

impl Mapped {
    /// Maps a file.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let failure = Failure::of_io(path);
        // A folder can be opened but not mapped, a device has no fixed bytes, and opening a pipe waits for its writer.
        if !fs::metadata(path).map_err(failure)?.is_file() {
            return Err(Failure::NotABinary { path: path.to_owned() });
        }
        let file = File::open(path).map_err(failure)?;
        // SAFETY: the bytes are only read, and decoded as untrusted input. A program that rewrites the file at the
        // same time would change the bytes during the reading, which the compiler may assume not to happen; but tools
        // that write binaries write to a new file, and this process only prints what it read.
        unsafe { Mmap::map(&file) }.map(Mapped).map_err(failure)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
