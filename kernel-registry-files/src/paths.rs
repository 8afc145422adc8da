//! What needs no open folder: reading and writing a file by its path.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::folder::Folder;

/// Opens a plain file that only this user and root can have written. Links are followed.
///
/// # Errors
///
/// The file can't be opened, is no plain file, or is [`Untrusted`](crate::Untrusted).
pub fn open(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::containing(path)?;
    folder.open_trusted(&name)
}

/// Fails if a file that's written to this path can't be trusted later.
///
/// # Errors
///
/// The folder is [`Untrusted`](crate::Untrusted). A folder that's missing is no error here.
pub fn check(path: &Path) -> io::Result<()> {
    match Folder::containing(path).and_then(|(folder, _)| folder.trusted()) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file as a whole, and creates its folder. Other processes may have the old file open, so the new
/// one replaces it.
///
/// # Errors
///
/// The folder can't be written to, or another user planted a link on the way.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Folder::create(&folder(path)?)?;
    let (folder, name) = Folder::containing(path)?;
    folder.write(&name, bytes)
}

/// Writes a file as [`write()`] does, to a place where it can be trusted later.
///
/// # Errors
///
/// The folder can't be written to, or is [`Untrusted`](crate::Untrusted).
pub fn write_trusted(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Folder::create_trusted(&folder(path)?, 0o755)?;
    let (folder, name) = Folder::containing(path)?;
    folder.trusted()?.write(&name, bytes)
}

fn folder(file: &Path) -> io::Result<PathBuf> {
    let file = std::path::absolute(file)?;
    Ok(file.parent().unwrap_or(&file).to_owned())
}
