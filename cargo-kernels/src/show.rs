//! `cargo kernels show`: prints a kernel's declaration and the resources of each variant of its image, or the latter of an
//! image alone.

pub(crate) mod alone;
mod image;
pub(crate) mod json;
mod shown;
mod summary;
mod text;

use std::path::Path;

use kernel_registry_format::KernelRecord;
use serde_json::Value;

use crate::binaries;
use crate::binary::Contents;
use crate::cli::{Build, Show};
use crate::failure::Failure;
use crate::kernel_name::{is_cuda_name, is_path, nearest};
use crate::unread::Unread;
use alone::Alone;
use shown::with_images;

pub(crate) use shown::Compiled;

pub(crate) fn run(options: &Show) -> Result<(), Failure> {
    let (name, path) = options.name_and_path();
    if let Some(path) = path
        && let Some(alone) = alone::read(path)?
    {
        return image::show(&alone, name, options.json);
    }
    let files = binaries::open(path, &options.build)?;
    let mut binaries = binaries::read_with_linked(&files)?;
    let whole = binaries::all_read(&binaries);
    let Some(is_called) = called(name, &binaries) else {
        // Or nvcc linked it.
        let linked = binaries.iter().filter_map(Alone::of_linked);
        if let Some((alone, name)) = linked.zip(name).find(|(alone, name)| alone.named(name).is_ok()) {
            return image::show(&alone, Some(name), options.json);
        }
        // It may be among the records that are newer than this tool.
        whole?;
        let name = name.unwrap_or_default();
        return Err(Failure::NoneNamed { name: name.to_owned(), near: near(name, &binaries) });
    };
    if name.is_none() && binaries.iter().all(|binary| binary.kernels.is_empty()) {
        // Programs that the package builds, all of whose kernels nvcc linked.
        let mut linked = binaries.iter().filter_map(Alone::of_linked);
        return linked.try_for_each(|alone| image::show(&alone, None, options.json)).and(whole);
    }
    // Only the images of matches are searched for.
    let is_shown = |kernel: &KernelRecord<'_>| is_called(kernel, name.unwrap_or_default());
    binaries.retain(|binary| binary.kernels.iter().any(is_shown));
    let all_read = with_images(&binaries, is_shown, |shown, summary| {
        binaries::print(|out| match options.json {
            true => crate::json::write(&json::binaries(shown, &summary), out),
            false => {
                text::write(shown, out)?;
                summary.write(shown.len(), options.all, out)
            }
        })?;
        summary.unread.check()
    });
    whole.and(all_read)
}

/// Calls a function with all kernels of a binary or an image, or of the package's binaries, and with what could not be read.
pub(crate) fn with_compiled<T>(
    path: Option<&Path>,
    build: &Build,
    then: impl FnOnce(Vec<Compiled<'_>>, Unread) -> T,
) -> Result<T, Failure> {
    if let Some(path) = path
        && let Some(alone) = alone::read(path)?
    {
        let kernels = alone.all()?.into_iter().map(|variants| Compiled { declared: None, variants });
        return Ok(then(kernels.collect(), alone.summary().unread));
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
            then(compiled.collect(), summary.unread)
        },
    ))
}

/// The JSON of all kernels in a binary or an image.
pub(crate) fn document(path: &Path) -> Result<Value, Failure> {
    if let Some(alone) = alone::read(path)? {
        return Ok(json::image(&alone, &alone.all()?));
    }
    let files = binaries::open_file(path)?;
    let binaries = binaries::read(&files)?;
    binaries::all_read(&binaries)?;
    Ok(with_images(&binaries, |_| true, |shown, summary| json::binaries(shown, &summary)))
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

/// The paths most similar to this name, best first.
fn near(name: &str, binaries: &[Contents<'_>]) -> Vec<String> {
    let kernels = binaries.iter().flat_map(|binary| &binary.kernels);
    nearest(name, kernels.map(|kernel| ([kernel.path, kernel.name(), kernel.symbol], kernel.path)))
}
