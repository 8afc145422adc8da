//! `cargo kernels show`: prints a kernel's declaration, and the resources of each variant of its image. Kernels of an image file
//! have no declaration.

mod text;

use kernel_registry_format::KernelRecord;

use crate::binaries;
use crate::binary::Contents;
use crate::cli::Show;
use crate::document::Document;
use crate::failure::Failure;
use crate::kernels;
use crate::kernels::names::{is_cuda_name, is_path, nearest};
use crate::kernels::undeclared::UndeclaredImage;
use crate::output;

pub(crate) fn run(options: &Show) -> Result<(), Failure> {
    let (name, path) = options.name_and_path();
    if let Some(path) = path
        && let Some(image) = UndeclaredImage::read(path)?
    {
        return show_image(&image, name, options);
    }
    let files = binaries::open(path, &options.build)?;
    let mut binaries = binaries::read_with_linked(&files)?;
    let whole = binaries::all_read(&binaries);
    let Some(is_called) = called(name, &binaries) else {
        // nvcc may have linked the kernel.
        let linked = binaries.iter().filter_map(UndeclaredImage::from_linked);
        if let Some((image, name)) = linked.zip(name).find(|(image, name)| image.named(name).is_ok()) {
            return show_image(&image, Some(name), options);
        }
        // The kernel's record may be newer than this tool.
        whole?;
        let name = name.unwrap_or_default();
        return Err(Failure::NoneNamed { name: name.to_owned(), near: near(name, &binaries) });
    };
    if name.is_none() && binaries.iter().all(|binary| binary.kernels.is_empty()) {
        // The package has no declared kernels: nvcc linked all kernels of its programs.
        let mut linked = binaries.iter().filter_map(UndeclaredImage::from_linked);
        return linked.try_for_each(|image| show_image(&image, None, options)).and(whole);
    }
    // Only the images of matches are searched for.
    let is_shown = |kernel: &KernelRecord<'_>| is_called(kernel, name.unwrap_or_default());
    binaries.retain(|binary| binary.kernels.iter().any(is_shown));
    let all_read = print(&kernels::describe(&binaries, is_shown), &binaries, options.all, options.json);
    whole.and(all_read)
}

/// Prints the kernels with a name, or all kernels, of an image that no record describes.
fn show_image(image: &UndeclaredImage<'_>, name: Option<&str>, options: &Show) -> Result<(), Failure> {
    let kernels = match name {
        Some(name) => image.named(name)?,
        None => image.kernels()?,
    };
    print(&image.describe(&kernels), &[], name.is_none(), options.json)
}

fn print(
    document: &Document,
    binaries: &[Contents<'_>],
    are_all: bool,
    as_json: bool,
) -> Result<(), Failure> {
    output::print(|out| match as_json {
        true => output::json::write(document, out),
        false => text::write(document, binaries, are_all, out),
    })?;
    document.unread().check()
}

type IsCalled = fn(&KernelRecord<'_>, &str) -> bool;

/// Returns the comparison by which the name matches some kernel: by path or symbol, or else by C++ name. Without a name all kernels
/// match.
fn called(name: Option<&str>, binaries: &[Contents<'_>]) -> Option<IsCalled> {
    let Some(name) = name else { return Some(|_, _| true) };
    let by_declaration: IsCalled = |kernel, name| is_path(kernel.path, name) || kernel.symbol == name;
    let by_cuda: IsCalled = |kernel, name| is_cuda_name(kernel.symbol, name);
    let kernels = || binaries.iter().flat_map(|binary| &binary.kernels);
    [by_declaration, by_cuda].into_iter().find(|is| kernels().any(|kernel| is(kernel, name)))
}

/// Returns the paths most similar to this name, best first.
fn near(name: &str, binaries: &[Contents<'_>]) -> Vec<String> {
    let kernels = binaries.iter().flat_map(|binary| &binary.kernels);
    nearest(name, kernels.map(|kernel| ([kernel.path, kernel.name(), kernel.symbol], kernel.path)))
}
