//! Describes the kernels of binaries and images, each with the variants of the image that have it.

pub(crate) mod names;
pub(crate) mod undeclared;

use std::path::Path;

use kernel_registry_format::KernelRecord;
use kernel_registry_image::{Entry, Signature};

use crate::binaries::{self, Files};
use crate::binary::Contents;
use crate::cli::Build;
use crate::document::{self, Declaration, DeclaredKernel, Document, Kernel};
use crate::failure::Failure;
use crate::images::compare;
use crate::images::embedded::EmbeddedImages;
use undeclared::UndeclaredImage;

/// Describes all kernels in a binary or an image.
pub(crate) fn describe_file(path: &Path) -> Result<Document, Failure> {
    match UndeclaredImage::read(path)? {
        Some(image) => Ok(image.describe(&image.kernels()?)),
        None => describe_all(&binaries::open_file(path)?),
    }
}

/// Describes all kernels in the binaries of the package.
pub(crate) fn describe_package(build: &Build) -> Result<Document, Failure> {
    describe_all(&binaries::open(None, build)?)
}

fn describe_all(files: &Files) -> Result<Document, Failure> {
    let binaries = binaries::read(files)?;
    binaries::all_read(&binaries)?;
    Ok(describe(&binaries, |_| true))
}

/// Describes some declared kernels.
pub(crate) fn describe(
    binaries: &[Contents<'_>],
    is_shown: impl Fn(&KernelRecord<'_>) -> bool + Copy,
) -> Document {
    let (mut kernels, mut images) = (Vec::new(), Vec::new());
    for binary in binaries {
        let embedded = EmbeddedImages::find(binary, is_shown);
        kernels.extend(
            binary
                .kernels
                .iter()
                .filter(|kernel| is_shown(kernel))
                .map(|kernel| Kernel::Declared(Box::new(describe_kernel(binary, kernel, &embedded)))),
        );
        images.extend(embedded.iter().filter_map(|(recorded, found)| {
            let image = document::Image::new(recorded.file.to_owned(), recorded.len, found.image.as_ref()?);
            Some(image.in_binary(binary, recorded.package, recorded.version))
        }));
    }
    Document::new(kernels, images)
}

fn describe_kernel(
    binary: &Contents<'_>,
    kernel: &KernelRecord<'_>,
    embedded: &EmbeddedImages<'_>,
) -> DeclaredKernel {
    let found = embedded.image_of(kernel);
    let image = found.and_then(|found| found.image.as_ref());
    let variants = image.into_iter().flat_map(|image| &image.variants);
    let variants: Vec<_> =
        variants.filter_map(|variant| Some((variant, variant.entry(kernel.symbol)?))).collect();
    DeclaredKernel {
        declaration: Declaration::new(binary, kernel),
        cuda: Signature::parse(kernel.symbol).map(|signature| signature.to_string()),
        ptx_types: variants.iter().find_map(|(_, entry)| ptx_types(entry)),
        image_kind: image.map(|image| image.kind.into()),
        certain: found.is_some_and(|found| found.is_certain),
        variants: variants.iter().map(|(variant, entry)| document::Variant::new(variant, entry)).collect(),
        partial: image
            .and_then(|image| compare::partial(kernel, kernel.symbol, image))
            .map(|p| p.to_string()),
    }
}

/// Returns the PTX types of a kernel's parameters, unless the symbol has their C++ types.
fn ptx_types(entry: &Entry) -> Option<Vec<String>> {
    let untyped = entry.typed_signature().is_none() && !entry.params.is_empty();
    let params = untyped.then_some(&entry.params)?;
    params.iter().map(|param| param.ptx_type.clone()).collect()
}
