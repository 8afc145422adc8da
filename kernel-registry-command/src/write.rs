//! Writes files atomically.

use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// Writes a file unless it has these bytes already. Other processes may keep the old file open.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    kernel_registry_files::write(path, bytes).map_err(Failure::not_written(path))
}
