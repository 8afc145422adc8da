//! `cargo kernels show`: prints a kernel's declaration and the resources of each variant of its image, or the latter of an
//! image alone.

mod image;
pub(crate) mod json;
mod summary;
mod text;

use std::path::Path;

use kernel_registry_format::KernelRecord;
use kernel_registry_image::{Entry, Partial, Signature, Variant};
use serde_json::Value;

use crate::binaries;
use crate::binary::Contents;
use crate::cli::{Build, Show};
use crate::compare;
use crate::embedded::{Embedded, Found};
use crate::failure::Failure;
use crate::unread::Unread;
use summary::{ImageEntry, Summary};

/// The most names to suggest if no kernel matches.
const MOST: usize = 3;

/// A kernel, and its image if the binary has it.
struct Shown<'a> {
    binary: &'a Contents<'a>,
    kernel: KernelRecord<'a>,
    embedded: &'a Embedded<'a>,
}

impl<'a> Shown<'a> {
    fn found(&self) -> Option<&'a Found<'a>> {
        self.embedded.of(&self.kernel)
    }

    /// The kernel in each variant of the image that has it.
    fn variants(&self) -> Vec<(&'a Variant, &'a Entry)> {
        let image = self.found().and_then(|found| found.image.as_ref());
        let variants = image.into_iter().flat_map(|image| &image.variants);
        variants.filter_map(|variant| Some((variant, variant.entry(self.kernel.symbol)?))).collect()
    }

    /// Where the kernel is, if not in all variants and the declaration does not say so.
    fn partial(&self) -> Option<Partial> {
        let image = self.found()?.image.as_ref()?;
        compare::partial(&self.kernel, self.kernel.symbol, image)
    }

    /// The types of its parameters in PTX, if its symbol does not tell those of C++.
    fn ptx_types(&self) -> Option<Vec<&'a str>> {
        let of_entry =
            |entry: &'a Entry| entry.params.iter().map(|param| param.ptx_type.as_deref()).collect();
        let entries = self.variants().into_iter().filter(|(_, entry)| entry.typed_signature().is_none());
        entries.filter_map(|(_, entry)| of_entry(entry)).find(|types: &Vec<&str>| !types.is_empty())
    }

    /// The kernel as C++ declares it, if its symbol tells.
    fn cuda(&self) -> Option<String> {
        Signature::of(self.kernel.symbol).map(|signature| signature.to_string())
    }
}

pub(crate) fn run(options: &Show) -> Result<(), Failure> {
    let (name, path) = options.name_and_path();
    if let Some(path) = path
        && let Some(alone) = image::read(path)?
    {
        return alone.show(name, options.json);
    }
    let files = binaries::open(path, &options.build)?;
    let mut binaries = binaries::read(&files)?;
    let whole = binaries::all_read(&binaries);
    let Some(is_called) = called(name, &binaries) else {
        // It may be among the records that are newer than this tool.
        whole?;
        let name = name.unwrap_or_default();
        return Err(Failure::NoneNamed { name: name.to_owned(), near: near(name, &binaries) });
    };
    // Only the images of matches are searched for.
    let is_shown = |kernel: &KernelRecord<'_>| is_called(kernel, name.unwrap_or_default());
    binaries.retain(|binary| binary.kernels.iter().any(is_shown));
    let all_read = with_images(&binaries, is_shown, |shown, summary| {
        binaries::print(|out| match options.json {
            true => json::write(shown, &summary, out),
            false => {
                text::write(shown, out)?;
                summary.write(shown.len(), options.all, out)
            }
        })?;
        summary.check()
    });
    whole.and(all_read)
}

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
        && let Some(alone) = image::read(path)?
    {
        return Ok(then(alone.compiled()?, alone.summary().into_unread()));
    }
    let files = binaries::open(path, build)?;
    let binaries = binaries::read(&files)?;
    binaries::all_read(&binaries)?;
    Ok(with_images(
        &binaries,
        |_| true,
        |shown, summary| {
            let compiled = shown.iter();
            let compiled =
                compiled.map(|shown| Compiled { declared: Some(shown.kernel), variants: shown.variants() });
            then(compiled.collect(), summary.into_unread())
        },
    ))
}

/// The JSON of all kernels in a binary or an image.
pub(crate) fn document(path: &Path) -> Result<Value, Failure> {
    if let Some(alone) = image::read(path)? {
        return alone.document();
    }
    let files = binaries::of_file(path)?;
    let binaries = binaries::read(&files)?;
    binaries::all_read(&binaries)?;
    Ok(with_images(&binaries, |_| true, |shown, summary| json::value(&json::Document::of(shown, &summary))))
}

/// Calls a function with the kernels that are shown, and their images.
fn with_images<T>(
    binaries: &[Contents<'_>],
    is_shown: impl Fn(&KernelRecord<'_>) -> bool + Copy,
    show: impl FnOnce(&[Shown<'_>], Summary<'_>) -> T,
) -> T {
    let embedded: Vec<_> = binaries.iter().map(|binary| Embedded::find(binary, is_shown)).collect();
    let shown: Vec<_> = binaries
        .iter()
        .zip(&embedded)
        .flat_map(|(binary, embedded)| {
            let kernels = binary.kernels.iter().filter(|kernel| is_shown(kernel));
            kernels.map(move |kernel| Shown { binary, kernel: *kernel, embedded })
        })
        .collect();
    let images = binaries.iter().zip(&embedded).flat_map(|(binary, embedded)| {
        let found = embedded.iter();
        found.filter_map(|(recorded, found)| {
            Some(ImageEntry::of_binary(binary, recorded, found.image.as_ref()?))
        })
    });
    show(&shown, Summary::of(images.collect()))
}

type IsCalled = fn(&KernelRecord<'_>, &str) -> bool;

/// How the name matches some kernel: by path or symbol, or else by C++ name. Without a name all match.
fn called(name: Option<&str>, binaries: &[Contents<'_>]) -> Option<IsCalled> {
    let Some(name) = name else { return Some(|_, _| true) };
    let by_declaration: IsCalled = |kernel, name| is_path(kernel.path, name) || kernel.symbol == name;
    let by_cuda: IsCalled = |kernel, name| is_cuda_name(kernel.symbol, name);
    let kernels = || binaries.iter().flat_map(|binary| &binary.kernels);
    [by_declaration, by_cuda].into_iter().find(|is| kernels().any(|kernel| is(kernel, name)))
}

/// Whether a name is a kernel's path, or the end of it.
pub(crate) fn is_path(path: &str, name: &str) -> bool {
    let ends_so = |path: &str| {
        let front = path.strip_suffix(name).filter(|_| !name.is_empty());
        front.is_some_and(|front| front.is_empty() || front.ends_with("::"))
    };
    // The name of a generic kernel without arguments matches all its instances.
    let generic = path.find("::<").map(|at| &path[..at]);
    ends_so(path) || generic.is_some_and(ends_so)
}

/// Whether a name is a kernel's name in C++.
pub(crate) fn is_cuda_name(symbol: &str, name: &str) -> bool {
    Signature::of(symbol).is_some_and(|signature| signature.names().contains(&name))
}

/// The paths most similar to this name, best first.
fn near(name: &str, binaries: &[Contents<'_>]) -> Vec<String> {
    let kernels = binaries.iter().flat_map(|binary| &binary.kernels);
    nearest(name, kernels.map(|kernel| ([kernel.path, kernel.name(), kernel.symbol], kernel.path)))
}

/// Of kernels with their names and their paths: the paths most similar to this name, best first.
pub(crate) fn nearest<'a>(name: &str, kernels: impl Iterator<Item = ([&'a str; 3], &'a str)>) -> Vec<String> {
    let similarity = |names: [&str; 3]| {
        names.map(|there| strsim::jaro_winkler(name, there)).into_iter().fold(0.0, f64::max)
    };
    let mut near: Vec<(f64, &str)> = kernels.map(|(names, path)| (similarity(names), path)).collect();
    near.retain(|(similarity, _)| *similarity > 0.7);
    near.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.cmp(y)));
    near.dedup();
    near.truncate(MOST);
    near.into_iter().map(|(_, path)| path.to_owned()).collect()
}
