//! Writes files as a whole.

use std::path::Path;
use std::{fs, io, process};

use crate::failure::Failure;

/// Writes a file unless its bytes are the same already. The old file is replaced, because others may have it
/// open.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let written = || -> io::Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        let new = path.with_extension(format!("new-{}", process::id()));
        fs::write(&new, bytes)?;
        fs::rename(&new, path)
    };
    written().map_err(Failure::not_written(path))
}
