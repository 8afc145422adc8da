//! `cargo kernels list`: the kernels of a binary, as tables or as JSON.

mod json;
mod linked;
pub(crate) mod table;

use std::io::{self, Write};

use kernel_registry_command::many;

use crate::binaries;
use crate::binary::Contents;
use crate::cli::List;
use crate::failure::Failure;
use crate::kernels::undeclared::UndeclaredImage;
use crate::output;

pub(crate) fn run(options: &List) -> Result<(), Failure> {
    let files = binaries::open(options.binaries.path.as_deref(), &options.binaries.build)?;
    let listed =
        binaries::keep_package(binaries::read_with_linked(&files)?, options.binaries.package.as_deref())?;
    let linked: Vec<_> = listed.iter().map(UndeclaredImage::from_linked).collect();
    output::print(|out| match options.json {
        true => output::json::write(&json::document(&listed, &linked), out),
        false => write(&listed, &linked, out),
    })?;
    linked.iter().flatten().try_for_each(|image| image.unread().check())?;
    binaries::all_read(&listed)
}

fn write(
    binaries: &[Contents<'_>],
    linked: &[Option<UndeclaredImage<'_>>],
    out: &mut impl Write,
) -> io::Result<()> {
    for (index, (binary, linked)) in binaries.iter().zip(linked).enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        if binary.has_records() {
            table::write(binary, out)?;
        }
        let Some(image) = linked else { continue };
        let kernels = image.kernels().unwrap_or_default();
        if binary.has_records() {
            writeln!(out, "\n{}", binary.linked.handed_over().describe(kernels.len()))?;
        } else {
            writeln!(out, "{}: {} that nvcc linked", binary.path.display(), many(kernels.len(), "kernel"))?;
        }
        if !kernels.is_empty() {
            writeln!(out)?;
            linked::write(image, &kernels, out)?;
        }
    }
    Ok(())
}
