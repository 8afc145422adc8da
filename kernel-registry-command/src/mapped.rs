//! Maps files into memory, so that only the pages in use are read.

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
        // Folders can be opened but not mapped, devices have no fixed contents, and opening a pipe waits.
        if !fs::metadata(path).map_err(failure)?.is_file() {
            return Err(Failure::NotABinary { path: path.to_owned() });
        }
        let file = File::open(path).map_err(failure)?;
        // SAFETY: the bytes are only read, and decoded as untrusted input. If a program rewrote the file in
        // place at the same time, they would change while they're borrowed. But tools write binaries to a new
        // file, and this process only prints the result.
        unsafe { Mmap::map(&file) }.map(Mapped).map_err(failure)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
