//! `cargo kernels show`.

mod json;
mod text;

use kernel_registry_format::Kernel;
use kernel_registry_image::{Entry, Needs, Signature, Variant};

use crate::binaries;
use crate::binary::Contents;
use crate::cli::Show;
use crate::embedded::{Embedded, Found};
use crate::failure::Failure;

/// Names offered at most where none fits.
const MOST: usize = 3;

/// A kernel, and its image if that is in the binary.
struct Shown<'a> {
    binary: &'a Contents<'a>,
    kernel: Kernel<'a>,
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

    /// The kernel as C++ declares it, if its symbol tells.
    fn cuda(&self) -> Option<String> {
        Signature::of(self.kernel.symbol).map(|signature| signature.to_string())
    }
}

pub(crate) fn run(options: &Show) -> Result<(), Failure> {
    let files = binaries::open(options.path.as_deref(), &options.build)?;
    let binaries = binaries::read(&files)?;
    let named = |kernel: &Kernel<'_>| is_called(kernel, &options.name);
    if !binaries.iter().flat_map(|binary| &binary.kernels).any(named) {
        binaries::all_read(&binaries)?;
        return Err(Failure::NoneNamed { name: options.name.clone(), near: near(&options.name, &binaries) });
    }
    // Images are only looked for where something is to be shown.
    let searched: Vec<_> = binaries
        .iter()
        .filter(|binary| binary.kernels.iter().any(named))
        .map(|binary| (binary, Embedded::find(binary)))
        .collect();
    let shown: Vec<_> = searched
        .iter()
        .flat_map(|(binary, embedded)| {
            let kernels = binary.kernels.iter().filter(|kernel| named(kernel));
            kernels.map(move |kernel| Shown { binary, kernel: *kernel, embedded })
        })
        .collect();
    binaries::print(|out| match options.json {
        true => json::write(&shown, out),
        false => text::write(&shown, out),
    })?;
    binaries::all_read(&binaries)
}

/// Whether this is its path, the end of that, or its symbol.
fn is_called(kernel: &Kernel<'_>, name: &str) -> bool {
    let is_end =
        kernel.path.strip_suffix(name).is_some_and(|front| front.is_empty() || front.ends_with("::"));
    (is_end && !name.is_empty()) || kernel.symbol == name
}

/// Paths that are like this name, or end like it, the most similar first.
fn near(name: &str, binaries: &[Contents<'_>]) -> Vec<String> {
    let similarity = |kernel: &Kernel<'_>| {
        let names = [kernel.path, kernel.name(), kernel.symbol];
        names.map(|there| strsim::jaro_winkler(name, there)).into_iter().fold(0.0, f64::max)
    };
    let kernels = binaries.iter().flat_map(|binary| &binary.kernels);
    let mut near: Vec<(f64, &str)> = kernels.map(|kernel| (similarity(kernel), kernel.path)).collect();
    near.retain(|(similarity, _)| *similarity > 0.7);
    near.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.cmp(y)));
    near.dedup();
    near.truncate(MOST);
    near.into_iter().map(|(_, path)| path.to_owned()).collect()
}

/// What a kernel needs of the driver, in words.
fn needs(needs: Needs) -> Vec<&'static str> {
    let Needs { printf, assert, heap, device_launch, .. } = needs;
    let all = [(printf, "printf"), (assert, "assert"), (heap, "heap"), (device_launch, "device launch")];
    all.into_iter().filter(|(needed, _)| *needed).map(|(_, word)| word).collect()
}
