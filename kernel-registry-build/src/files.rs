//! Writes files atomically, and only if they change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use crate::{Error, Result};

/// Writes a file, unless it already has these bytes.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let temporary = temporary(path);
    fs::write(&temporary, bytes).map_err(Error::file("write", &temporary))?;
    fs::rename(&temporary, path).map_err(Error::file("write", path))
}

/// Returns the path of a temporary file, which is later renamed to `path`.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", process::id()));
    path.with_file_name(name)
}
