//! The functions for systems where ownership of files isn't checked.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::Path;

/// Opens a plain file.
///
/// # Errors
///
/// The file can't be opened, or isn't a plain file.
pub fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it isn't a plain file")),
    }
}

/// Does nothing: all files are trusted.
///
/// # Errors
///
/// None.
pub fn check(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Writes a file like [`write`]: all files are trusted.
///
/// # Errors
///
/// The folder can't be written to.
pub fn write_trusted(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes)
}

/// Writes a file atomically, and creates its folder. Other processes may have the old file open, so the new
/// one replaces it.
///
/// # Errors
///
/// The folder can't be written to.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let new = path.with_extension(format!("{:016x}.part", RandomState::new().build_hasher().finish()));
    let written = File::create_new(&new).and_then(|mut file| file.write_all(bytes));
    let placed = written.and_then(|()| fs::rename(&new, path));
    if placed.is_err() {
        let _ = fs::remove_file(&new);
    }
    placed
}
