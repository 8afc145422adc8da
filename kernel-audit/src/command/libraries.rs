//! Finds or builds the libraries that a program gets: the hooks, their part in the loader, and the driver behind them.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use kernel_registry_command::driver::{Library, mapped_driver};
use kernel_registry_command::libraries::{AUDIT, AUDITOR, SIM, Shared, built, prebuilt};
use kernel_registry_command::simulator::prepare;

use super::failure::Failure;

/// The path of the simulated driver in a folder that `pack` wrote.
pub(crate) const PACKED_SIM: &str = "sim/libcuda.so.1";

/// Returns the library of the hooks.
pub(crate) fn hooks(offline: bool) -> Result<PathBuf, Failure> {
    prebuilt_or_built(&AUDIT, offline)
}

/// Returns the hooks' part in the loader.
pub(crate) fn auditor(offline: bool) -> Result<PathBuf, Failure> {
    prebuilt_or_built(&AUDITOR, offline)
}

fn prebuilt_or_built(library: &Shared, offline: bool) -> Result<PathBuf, Failure> {
    match prebuilt(library) {
        Some(file) => Ok(file),
        None => Ok(built(library, offline)?.library),
    }
}

/// Returns the driver behind the hooks: the simulated one, or the one that the program would have found.
pub(crate) fn driver(sim: bool, offline: bool) -> Result<PathBuf, Failure> {
    if sim {
        if let Some(hooks) = prebuilt(&AUDIT) {
            let packed = hooks.with_file_name(PACKED_SIM);
            return if packed.is_file() { Ok(packed) } else { Err(Failure::PackedWithoutSim) };
        }
        let (folder, _) = prepare(&built(&SIM, offline)?)?;
        return Ok(folder.join("libcuda.so.1"));
    }
    let _driver = Library::open_unwatched().map_err(|why| Failure::NoDriver { why })?;
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    mapped_driver(&maps).ok_or_else(|| Failure::NoDriver { why: "its file is not known".to_owned() })
}

/// Returns the path of a library that the stub needs. The stub names its libraries in UTF-8.
pub(crate) fn loadable(path: &Path) -> Result<&str, Failure> {
    const WHY: &str = "this library is loaded by its path, which is not UTF-8: move it to another folder";
    let why = || Failure::of_io(path)(io::Error::new(ErrorKind::InvalidFilename, WHY));
    path.to_str().ok_or_else(why)
}
