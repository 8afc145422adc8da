//! `cargo kernels check`: compares the declarations of a binary with the binary's own images or with other
//! images.

mod findings;
mod json;
mod text;

use std::fs;
use std::path::Path;

use kernel_registry_command::bake;
use kernel_registry_image::Image;

use crate::binaries;
use crate::cli::{Check, Deny};
use crate::document::unread::Unread;
use crate::failure::Failure;
use crate::images::ptx::read_beside;
use crate::output;
use findings::{Finding, FindingKind, Report};

pub(crate) fn run(options: &Check) -> Result<(), Failure> {
    let images = options.image.iter().map(|path| read_image(path)).collect::<Result<Vec<_>, _>>()?;
    let mut files = binaries::open(options.binaries.path.as_deref(), &options.binaries.build)?;
    let unlinked = if options.deny.contains(&Deny::Unlinked) { files.unlinked()? } else { Vec::new() };
    let checked =
        binaries::keep_package(binaries::read_with_registry(&files)?, options.binaries.package.as_deref())?;
    let declarations = checked.iter().map(|binary| binary.kernels.len()).sum();
    let mut report =
        Report { declarations, images: 0, findings: Vec::new(), unread: Unread::default(), linked: 0 };
    if images.is_empty() {
        checked.iter().for_each(|binary| report.compare_with_own(binary));
    } else {
        report.compare_with_files(&checked, &images);
    }
    if options.deny.contains(&Deny::Jit) {
        for binary in &checked {
            let baked = match &options.baked {
                Some(file) => bake::read(file)?,
                None => read_beside(&binary.path),
            };
            report.add_compiled(binary, &baked, &options.arch);
        }
    }
    unlinked.iter().for_each(|unlinked| report.add_unlinked(unlinked));
    output::print(|out| match options.json {
        true => output::json::write(&json::document(&report, options), out),
        false => text::write(&report, out),
    })?;
    let disagrees =
        |finding: &&Finding<'_>| finding.kind != FindingKind::Unread && finding.kind.is_denied(options);
    match report.findings.iter().filter(disagrees).count() {
        0 => binaries::all_read(&checked).and(report.unread.check()),
        count => Err(Failure::Differences { count }),
    }
}

/// Reads an image, and returns it with the file's name as given.
fn read_image(path: &Path) -> Result<(String, Image), Failure> {
    let bytes = fs::read(path).map_err(Failure::of_io(path))?;
    match kernel_registry_image::read(&bytes) {
        Ok(image) => Ok((path.display().to_string(), image)),
        Err(error) => Err(Failure::Image { path: path.to_owned(), error }),
    }
}
