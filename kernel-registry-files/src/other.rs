//! Where files have no owners that could be compared.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::Path;

/// Opens a plain file.
///
/// # Errors
///
/// The file can't be opened, or is no plain file.
pub fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is no plain file")),
    }
}

/// Does nothing: each file is trusted.
///
/// # Errors
///
/// None.
pub fn check(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Writes a file as [`write`] does: each file is trusted.
///
/// # Errors
///
/// The folder can't be written to.
pub fn write_trusted(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes)
}

/// Writes a file as a whole, and creates its folder. Other processes may have the old file open, so the new
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
