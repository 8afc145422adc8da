//! An image that is in no binary, and its kernels.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kernel_registry_image::linked::read_linked;
use kernel_registry_image::{Entry, Error, Image, Variant};
use object::elf::EM_CUDA;

use super::summary::{ImageEntry, Summary};
use crate::binary::Contents;
use crate::failure::Failure;
use crate::mapped::Mapped;

/// The image in a file of its own.
pub(crate) struct Alone<'a> {
    pub(crate) file: &'a Path,
    pub(crate) bytes: usize,
    pub(crate) image: Image,
}

/// A kernel in each variant of the image that has it.
pub(crate) type Kernel<'a> = Vec<(&'a Variant, &'a Entry)>;

/// The image in this file, or that of the kernels which nvcc linked into a program that declares none. None if it is something else.
pub(crate) fn read(file: &Path) -> Result<Option<Alone<'_>>, Failure> {
    let bytes = Mapped::open(file)?;
    if let Ok(contents) = Contents::read(file, &bytes)
        && contents.kernels.is_empty()
        && contents.newer.is_none()
        && let Some(Alone { bytes, image, .. }) = Alone::of_linked(&contents)
    {
        return Ok(Some(Alone { file, bytes, image }));
    }
    match kernel_registry_image::read(&bytes) {
        Ok(image) => Ok(Some(Alone { file, bytes: bytes.len(), image })),
        Err(Error::NotAnImage) => Ok(None),
        // Binaries are ELF files too, and damage to them has words of its own.
        Err(_) if bytes.starts_with(b"\x7fELF") && !is_for_cuda(&bytes) => Ok(None),
        Err(error) => Err(Failure::Image { path: file.to_owned(), error }),
    }
}

/// Whether the header of an ELF file names CUDA's machine.
fn is_for_cuda(elf: &[u8]) -> bool {
    elf.get(18..20) == Some(&EM_CUDA.0.to_le_bytes())
}

impl<'a> Alone<'a> {
    /// The kernels that nvcc linked into a binary, as those of one image.
    pub(crate) fn of_linked(binary: &'a Contents<'_>) -> Option<Self> {
        let sections = &binary.linked.sections;
        let bytes = sections.iter().map(|section| section.len()).sum();
        let alone = || Alone { file: &binary.path, bytes, image: read_linked(sections) };
        (!sections.is_empty()).then(alone)
    }
}

impl Alone<'_> {
    pub(crate) fn summary(&self) -> Summary<'_> {
        Summary::new(vec![ImageEntry::alone(self)])
    }

    pub(crate) fn named(&self, name: &str) -> Result<Vec<Kernel<'_>>, Failure> {
        let symbols: BTreeSet<&str> =
            self.image.named(name).into_iter().map(|entry| entry.symbol.as_str()).collect();
        let kernels = self.kernels(|entry| symbols.contains(entry.symbol.as_str()));
        if kernels.is_empty() {
            let error = self.image.find(name, &self.file.display().to_string()).err();
            let missing = || Failure::NoneNamed { name: name.to_owned(), near: Vec::new() };
            return Err(error.map_or_else(missing, |error| Failure::NotInImage { error }));
        }
        Ok(kernels)
    }

    pub(crate) fn all(&self) -> Result<Vec<Kernel<'_>>, Failure> {
        let kernels = self.kernels(|_| true);
        match kernels.is_empty() {
            true => Err(Failure::WithoutKernels { path: self.file.to_owned() }),
            false => Ok(kernels),
        }
    }

    /// The kernels whose entries are wanted, in the order of their symbols.
    fn kernels(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<Kernel<'_>> {
        let mut kernels = BTreeMap::<&str, Kernel<'_>>::new();
        for variant in &self.image.variants {
            for entry in variant.entries.iter().filter(|entry| is_wanted(entry)) {
                kernels.entry(&entry.symbol).or_default().push((variant, entry));
            }
        }
        kernels.into_values().collect()
    }
}
