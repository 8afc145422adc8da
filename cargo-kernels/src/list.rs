//! `cargo kernels list`: the kernels of a binary, as a table or as JSON.

pub(crate) mod json;
pub(crate) mod table;

use crate::binaries;
use crate::cli::List;
use crate::failure::Failure;

pub(crate) fn run(options: &List) -> Result<(), Failure> {
    let files = binaries::open(options.path.as_deref(), &options.build)?;
    let mut listed = binaries::read(&files)?;
    if let Some(package) = &options.package {
        binaries::keep_package(&mut listed, package)?;
    }
    binaries::print(|out| match options.json {
        true => crate::json::write(&json::document(&listed), out),
        false => table::write(&listed, out),
    })?;
    binaries::all_read(&listed)
}
