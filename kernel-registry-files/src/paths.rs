//! Opens and writes files by path, for callers that don't need an open folder.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::folder::Folder;

/// Opens a plain file that only this user and root can have written. Links are followed.
///
/// # Errors
///
/// The file can't be opened, isn't a plain file, or is [`Untrusted`](crate::Untrusted).
pub fn open(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::containing(path)?;
    folder.open_trusted(&name)
}

/// Checks that a file written to this path could be trusted later.
///
/// # Errors
///
/// The folder is [`Untrusted`](crate::Untrusted). A missing folder isn't an error.
pub fn check(path: &Path) -> io::Result<()> {
    match Folder::containing(path).and_then(|(folder, _)| folder.trusted()) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file atomically, and creates its folder. Other processes may have the old file open, so the new
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

/// Writes a file like [`write()`], if it could be trusted at that path later.
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
