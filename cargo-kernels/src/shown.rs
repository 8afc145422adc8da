//! The kernels of binaries and images that a command asks for, each with the variants of its image that have it.

use std::path::Path;

use kernel_registry_format::KernelRecord;
use kernel_registry_image::{Entry, Signature, Variant};

use crate::alone::Alone;
use crate::binaries;
use crate::binary::Contents;
use crate::cli::Build;
use crate::compare;
use crate::document::{self, Declaration, DeclaredKernel, Document, Kernel};
use crate::embedded::{Embedded, Found};
use crate::failure::Failure;
use crate::unread::Unread;

/// A kernel in each variant of its image that has it.
pub(crate) struct Compiled<'a> {
    /// None for a kernel of an image alone.
    pub(crate) declared: Option<KernelRecord<'a>>,
    pub(crate) variants: Vec<(&'a Variant, &'a Entry)>,
}

/// Calls a function with all kernels of a binary or an image, or of the package's binaries, and with what could not be read.
pub(crate) fn with_compiled<T>(
    path: Option<&Path>,
    build: &Build,
    then: impl FnOnce(Vec<Compiled<'_>>, Unread) -> T,
) -> Result<T, Failure> {
    if let Some(path) = path
        && let Some(alone) = Alone::read(path)?
    {
        let kernels = alone.kernels()?.into_iter().map(|variants| Compiled { declared: None, variants });
        return Ok(then(kernels.collect(), alone.unread()));
    }
    let files = binaries::open(path, build)?;
    let binaries = binaries::read(&files)?;
    binaries::all_read(&binaries)?;
    let embedded = find_images(&binaries, |_| true);
    let compiled = binaries.iter().zip(&embedded).flat_map(|(binary, embedded)| {
        let kernels = binary.kernels.iter();
        kernels.map(|kernel| Compiled { declared: Some(*kernel), variants: variants(kernel, embedded) })
    });
    let mut unread = Unread::default();
    images(&binaries, &embedded).iter().for_each(|image| unread.add(&image.file, &image.unread));
    Ok(then(compiled.collect(), unread))
}

/// Describes all kernels in a binary or an image.
pub(crate) fn describe_file(path: &Path) -> Result<Document, Failure> {
    if let Some(alone) = Alone::read(path)? {
        return Ok(alone.describe(&alone.kernels()?));
    }
    let files = binaries::open_file(path)?;
    let binaries = binaries::read(&files)?;
    binaries::all_read(&binaries)?;
    Ok(describe(&binaries, |_| true))
}

/// Describes some declared kernels.
pub(crate) fn describe(
    binaries: &[Contents<'_>],
    is_shown: impl Fn(&KernelRecord<'_>) -> bool + Copy,
) -> Document {
    let embedded = find_images(binaries, is_shown);
    let kernels = binaries.iter().zip(&embedded).flat_map(|(binary, embedded)| {
        let kernels = binary.kernels.iter().filter(|kernel| is_shown(kernel));
        kernels.map(|kernel| Kernel::Declared(Box::new(describe_kernel(binary, kernel, embedded))))
    });
    Document::new(kernels.collect(), images(binaries, &embedded))
}

fn find_images<'a>(
    binaries: &'a [Contents<'_>],
    is_shown: impl Fn(&KernelRecord<'_>) -> bool + Copy,
) -> Vec<Embedded<'a>> {
    binaries.iter().map(|binary| Embedded::find(binary, is_shown)).collect()
}

fn images(binaries: &[Contents<'_>], embedded: &[Embedded<'_>]) -> Vec<document::Image> {
    let images = binaries.iter().zip(embedded).flat_map(|(binary, embedded)| {
        embedded.iter().filter_map(|(recorded, found)| {
            let image = document::Image::new(recorded.file.to_owned(), recorded.len, found.image.as_ref()?);
            Some(image.of_binary(binary, recorded.package, recorded.version))
        })
    });
    images.collect()
}

/// A kernel in each variant of its image that has it.
fn variants<'a>(kernel: &KernelRecord<'a>, embedded: &'a Embedded<'a>) -> Vec<(&'a Variant, &'a Entry)> {
    let image = embedded.image_of(kernel).and_then(|found| found.image.as_ref());
    let variants = image.into_iter().flat_map(|image| &image.variants);
    variants.filter_map(|variant| Some((variant, variant.entry(kernel.symbol)?))).collect()
}

fn describe_kernel(
    binary: &Contents<'_>,
    kernel: &KernelRecord<'_>,
    embedded: &Embedded<'_>,
) -> DeclaredKernel {
    let found = embedded.image_of(kernel);
    let image = found.and_then(|found| found.image.as_ref());
    let variants = variants(kernel, embedded);
    DeclaredKernel {
        declaration: Declaration::new(binary, kernel),
        cuda: Signature::of(kernel.symbol).map(|signature| signature.to_string()),
        ptx_types: variants.iter().find_map(|(_, entry)| ptx_types(entry)),
        image_kind: image.map(|image| image.kind.into()),
        certain: found.is_some_and(|found: &Found<'_>| found.is_certain),
        variants: variants.iter().map(|(variant, entry)| document::Variant::new(variant, entry)).collect(),
        partial: image
            .and_then(|image| compare::partial(kernel, kernel.symbol, image))
            .map(|p| p.to_string()),
    }
}

/// The types of a kernel's parameters in PTX, if its symbol does not tell those of C++.
fn ptx_types(entry: &Entry) -> Option<Vec<String>> {
    let untyped = entry.typed_signature().is_none() && !entry.params.is_empty();
    let params = untyped.then_some(&entry.params)?;
    params.iter().map(|param| param.ptx_type.clone()).collect()
}
