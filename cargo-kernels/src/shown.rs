//! The kernels that are shown, with their images.

use kernel_registry_format::KernelRecord;
use kernel_registry_image::{Entry, Partial, Signature, Variant};

use super::summary::{ImageEntry, Summary};
use crate::binary::Contents;
use crate::compare;
use crate::embedded::{Embedded, Found};

/// A kernel, and its image if the binary has it.
pub(super) struct Shown<'a> {
    pub(super) binary: &'a Contents<'a>,
    pub(super) kernel: KernelRecord<'a>,
    embedded: &'a Embedded<'a>,
}

impl<'a> Shown<'a> {
    pub(super) fn found(&self) -> Option<&'a Found<'a>> {
        self.embedded.image_of(&self.kernel)
    }

    /// The kernel in each variant of the image that has it.
    pub(super) fn variants(&self) -> Vec<(&'a Variant, &'a Entry)> {
        let image = self.found().and_then(|found| found.image.as_ref());
        let variants = image.into_iter().flat_map(|image| &image.variants);
        variants.filter_map(|variant| Some((variant, variant.entry(self.kernel.symbol)?))).collect()
    }

    /// Where the kernel is, if not in all variants and the declaration does not say so.
    pub(super) fn partial(&self) -> Option<Partial> {
        let image = self.found()?.image.as_ref()?;
        compare::partial(&self.kernel, self.kernel.symbol, image)
    }

    /// The types of its parameters in PTX, if its symbol does not tell those of C++.
    pub(super) fn ptx_types(&self) -> Option<Vec<&'a str>> {
        let of_entry =
            |entry: &'a Entry| entry.params.iter().map(|param| param.ptx_type.as_deref()).collect();
        let entries = self.variants().into_iter().filter(|(_, entry)| entry.typed_signature().is_none());
        entries.filter_map(|(_, entry)| of_entry(entry)).find(|types: &Vec<&str>| !types.is_empty())
    }

    /// The kernel as C++ declares it, if its symbol tells.
    pub(super) fn cuda(&self) -> Option<String> {
        Signature::of(self.kernel.symbol).map(|signature| signature.to_string())
    }
}

/// A kernel in each variant of its image that has it.
pub(crate) struct Compiled<'a> {
    /// None for a kernel of an image alone.
    pub(crate) declared: Option<KernelRecord<'a>>,
    pub(crate) variants: Vec<(&'a Variant, &'a Entry)>,
}

/// Calls a function with the kernels that are shown, and their images.
pub(super) fn with_images<T>(
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
            Some(ImageEntry::in_binary(binary, recorded, found.image.as_ref()?))
        })
    });
    show(&shown, Summary::new(images.collect()))
}
