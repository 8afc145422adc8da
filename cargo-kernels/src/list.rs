//! `cargo kernels list`: the kernels of a binary, as a table or as JSON.

pub(crate) mod json;
pub(crate) mod table;

use crate::binaries;
use crate::cli::List;
use crate::failure::Failure;

pub(crate) fn run(options: &List) -> Result<(), Failure> {
    let files = binaries::open(options.binaries.path.as_deref(), &options.binaries.build)?;
    let listed = binaries::read_package(&files, options.binaries.package.as_deref())?;
    binaries::print(|out| match options.json {
        true => crate::json::write(&json::document(&listed), out),
        false => table::write(&listed, out),
    })?;
    binaries::all_read(&listed)
}
