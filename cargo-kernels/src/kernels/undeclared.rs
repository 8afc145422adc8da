//! Standalone image files, and fatbins linked by nvcc.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kernel_registry_command::Mapped;
use kernel_registry_image::linked::read_linked;
use kernel_registry_image::{Entry, Error, Image, ParamLayout, Variant};
use object::elf::EM_CUDA;

use crate::binary::Contents;
use crate::document::unread::{Unread, UnreadVariant};
use crate::document::{self, Document, ImageKernel, ImageParam};
use crate::failure::Failure;

/// An image whose kernels no record declares. nvcc's fatbins in a binary count as one image.
pub(crate) struct UndeclaredImage<'a> {
    pub(crate) file: &'a Path,
    pub(crate) bytes: usize,
    pub(crate) image: Image,
}

/// The entries of one kernel, each with the variant of the image that has it.
pub(crate) type Kernel<'a> = Vec<(&'a Variant, &'a Entry)>;

/// Returns whether an ELF file is a cubin.
fn is_cubin(elf: &[u8]) -> bool {
    elf.get(18..20) == Some(&EM_CUDA.0.to_le_bytes())
}

impl<'a> UndeclaredImage<'a> {
    /// Reads an image file, or the kernels that nvcc linked into a program without declared kernels. Returns
    /// `None` for other files.
    pub(crate) fn read(file: &'a Path) -> Result<Option<Self>, Failure> {
        let bytes = Mapped::open(file)?;
        if let Ok(contents) = Contents::read(file, &bytes)
            && contents.kernels.is_empty()
            && contents.newer.is_none()
            && let Some(UndeclaredImage { bytes, image, .. }) = UndeclaredImage::from_linked(&contents)
        {
            return Ok(Some(UndeclaredImage { file, bytes, image }));
        }
        match kernel_registry_image::read(&bytes) {
            Ok(image) => Ok(Some(UndeclaredImage { file, bytes: bytes.len(), image })),
            Err(Error::NotAnImage) => Ok(None),
            // Any other ELF file is a binary. Reading its records reports the damage.
            Err(_) if bytes.starts_with(b"\x7fELF") && !is_cubin(&bytes) => Ok(None),
            Err(error) => Err(Failure::Image { path: file.to_owned(), error }),
        }
    }

    /// Returns the kernels that nvcc linked into a binary, as one image. `None` if there are none.
    pub(crate) fn from_linked(binary: &'a Contents<'_>) -> Option<Self> {
        let sections = &binary.linked.sections;
        let bytes = sections.iter().map(|section| section.len()).sum();
        let image = || UndeclaredImage { file: &binary.path, bytes, image: read_linked(sections) };
        (!sections.is_empty()).then(image)
    }
}

impl UndeclaredImage<'_> {
    /// Describes these kernels of the image.
    pub(crate) fn describe(&self, kernels: &[Kernel<'_>]) -> Document {
        let describe = |kernel| document::Kernel::Undeclared(self.describe_kernel(kernel));
        let image = document::Image::new(self.file.display().to_string(), self.bytes as u64, &self.image);
        Document::new(kernels.iter().map(describe).collect(), vec![image])
    }

    pub(crate) fn describe_kernel(&self, variants: &Kernel<'_>) -> ImageKernel {
        let (_, entry) = variants[0];
        ImageKernel {
            file: self.file.display().to_string(),
            symbol: entry.symbol.clone(),
            cuda: entry.signature.as_ref().map(ToString::to_string),
            image_kind: Some(self.image.kind.into()),
            image_bytes: Some(self.bytes as u64),
            params: params(variants),
            variants: variants
                .iter()
                .map(|(variant, entry)| document::Variant::new(variant, entry))
                .collect(),
        }
    }

    /// Returns the variants of the image that couldn't be read.
    pub(crate) fn unread(&self) -> Unread {
        let mut unread = Unread::default();
        unread.add(&self.file.display().to_string(), &UnreadVariant::in_image(&self.image));
        unread
    }

    pub(crate) fn named(&self, name: &str) -> Result<Vec<Kernel<'_>>, Failure> {
        let symbols: BTreeSet<&str> =
            self.image.named(name).into_iter().map(|entry| entry.symbol.as_str()).collect();
        let kernels = self.kernels_where(|entry| symbols.contains(entry.symbol.as_str()));
        if kernels.is_empty() {
            let error = self.image.find(name, &self.file.display().to_string()).err();
            let missing = || Failure::NoneNamed { name: name.to_owned(), near: Vec::new() };
            return Err(error.map_or_else(missing, |error| Failure::NotInImage { error }));
        }
        Ok(kernels)
    }

    pub(crate) fn kernels(&self) -> Result<Vec<Kernel<'_>>, Failure> {
        let kernels = self.kernels_where(|_| true);
        match kernels.is_empty() {
            true => Err(Failure::WithoutKernels { path: self.file.to_owned() }),
            false => Ok(kernels),
        }
    }

    /// Returns the kernels with a wanted entry, sorted by symbol.
    fn kernels_where(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<Kernel<'_>> {
        let mut kernels = BTreeMap::<&str, Kernel<'_>>::new();
        for variant in &self.image.variants {
            for entry in variant.entries.iter().filter(|entry| is_wanted(entry)) {
                kernels.entry(&entry.symbol).or_default().push((variant, entry));
            }
        }
        kernels.into_values().collect()
    }
}

/// Returns the parameters of a kernel in its first variant. Machine code has no types, so these come from a PTX
/// variant, if there is one.
fn params(variants: &Kernel<'_>) -> Vec<ImageParam> {
    let has_types = |params: &&Vec<ParamLayout>| params.iter().all(|param| param.ptx_type.is_some());
    let first = &variants[0].1.params;
    let mut all = variants.iter().map(|(_, entry)| &entry.params);
    let typed = all.find(|params| has_types(params) && params.len() == first.len()).unwrap_or(first);
    let param = |(param, typed): (_, &ParamLayout)| ImageParam::new(param, typed.ptx_type.clone());
    first.iter().zip(typed).map(param).collect()
}
