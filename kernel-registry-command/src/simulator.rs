//! Prepares the simulated driver for programs.

use std::env;
use std::ffi::OsString;
use std::iter;
use std::path::{Path, PathBuf};

use crate::driver::Library;
use crate::failure::Failure;
use crate::folder;
use crate::libraries::Built;

/// Puts the simulated driver into a folder for `LD_LIBRARY_PATH`. Returns the folder and the opened driver.
pub fn prepare(built: &Built) -> Result<(PathBuf, Library), Failure> {
    let useless = |why| Failure::NotLoaded { path: built.library.clone(), why };
    let driver = Library::open_file(&built.library).map_err(useless)?;
    let version = driver.version().map_err(|refused| useless(refused.to_string()))?;
    let folder = built.folder.join(format!("for-{}", version));
    folder::fill(&folder, &built.library, |name| driver.offers(name, version))?;
    Ok((folder, driver))
}

/// Returns `LD_LIBRARY_PATH` with this folder prepended.
pub fn library_path(folder: &Path) -> OsString {
    let before = env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
    let folders = iter::once(folder.as_os_str().to_owned()).chain(before);
    folders.collect::<Vec<_>>().join(":".as_ref())
}
