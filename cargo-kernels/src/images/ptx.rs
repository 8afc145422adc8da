//! The images of a binary with PTX, which drivers compile, and their baked code.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kernel_registry_command::Failure as Shared;
use kernel_registry_command::bake::{self, Entry};
use kernel_registry_command::compiler::Options;
use kernel_registry_command::terminal;
use kernel_registry_format::baked;
use kernel_registry_image::embedded::{Search, texts};
use kernel_registry_image::{
    Image, ImageKind, Portability, Target, Variant, VariantKind, ptx_of_fatbin, read,
};

use super::embedded::EmbeddedImages;
use crate::binary::Contents;
use crate::binary::declared_image::DeclaredImage;

/// An image with PTX.
pub(crate) struct PtxImage<'a> {
    /// The file that declarations name, or else the offset in the binary.
    pub(crate) name: String,
    /// The image as its kernels' declarations name it. Empty if nothing declares it.
    pub(crate) declared_as: Vec<DeclaredImage<'a>>,
    /// The key of its baked code.
    pub(crate) key: [u8; 32],
    pub(crate) kernels: usize,
    texts: Vec<(Target, Cow<'a, [u8]>)>,
    /// The targets of its machine code.
    code: Vec<Target>,
}

/// The code that an image lacks for an architecture.
pub(crate) enum Need<'t> {
    /// None: the image has machine code.
    Code,
    /// The image has no variant for it.
    NotFor,
    /// This PTX, compiled for this target. PTX for sm_90a only is compiled for sm_90a.
    Ptx(&'t [u8], Target),
}

impl<'a> PtxImage<'a> {
    /// Returns the images of declared kernels with PTX, then all other PTX texts in the binary, each once.
    pub(crate) fn find(binary: &Contents<'a>) -> Vec<Self> {
        let mut images = Self::declared(binary);
        let mut keys: BTreeSet<_> = images.iter().map(|image| image.key).collect();
        for (place, text) in texts(binary.data) {
            let Some(image) = read(text).ok().and_then(|image| Self::new(text, &image)) else { continue };
            if keys.insert(image.key) {
                images.push(PtxImage { name: format!("PTX at {place:#x}"), ..image });
            }
        }
        images
    }

    /// Returns the images of declared kernels with PTX.
    pub(crate) fn declared(binary: &Contents<'a>) -> Vec<Self> {
        let embedded = EmbeddedImages::find(binary, |_| true);
        let length = |declared: &DeclaredImage<'_>| usize::try_from(declared.len).unwrap_or(usize::MAX);
        let search = Search::new(binary.data, embedded.iter().map(|(declared, _)| length(declared)));
        let mut images: Vec<PtxImage<'a>> = Vec::new();
        for (declared, found) in embedded.iter() {
            // Images that read the same may differ in their bytes.
            let is_found = |image: &Image| found.image.as_deref() == Some(image);
            for bytes in search.bytes(length(declared)) {
                let image = read(bytes).ok().filter(is_found).and_then(|image| Self::new(bytes, &image));
                let Some(image) = image else { continue };
                match images.iter_mut().find(|other| other.key == image.key) {
                    Some(other) => other.declared_as.push(*declared),
                    None => {
                        let name = declared.file.to_owned();
                        images.push(PtxImage { name, declared_as: vec![*declared], ..image });
                    }
                }
            }
        }
        images
    }

    /// Returns the image without a name, or `None` if it has no PTX.
    fn new(bytes: &'a [u8], image: &Image) -> Option<Self> {
        let is_text = image.kind == ImageKind::Ptx;
        let counting = if is_text { baked::text(bytes) } else { bytes };
        let texts: Vec<_> = match is_text {
            true => vec![(image.variants.first()?.target, Cow::Borrowed(counting))],
            false => {
                let texts = ptx_of_fatbin(bytes).ok()?.into_iter();
                let read = texts.filter_map(|text| {
                    let target = read(text.as_bytes()).ok()?.variants.first()?.target;
                    Some((target, Cow::Owned(text.into_bytes())))
                });
                read.collect()
            }
        };
        let code = image.variants.iter().filter(|variant| variant.kind == VariantKind::Cubin);
        let entries = image.variants.iter().flat_map(|variant: &Variant| &variant.entries);
        let kernels = entries.map(|entry| &entry.symbol).collect::<BTreeSet<_>>().len();
        (!texts.is_empty()).then(|| PtxImage {
            name: String::new(),
            declared_as: Vec::new(),
            key: bake::key(counting, Options::default()),
            kernels,
            code: code.map(|variant| variant.target).collect(),
            texts,
        })
    }

    /// Returns the number of bytes of PTX.
    pub(crate) fn len(&self) -> usize {
        self.texts.iter().map(|(_, text)| text.len()).sum()
    }

    /// Returns what devices of an architecture need. Of several texts, drivers take the newest that fits.
    pub(crate) fn need(&self, arch: Target) -> Need<'_> {
        if self.has_code(arch) {
            return Need::Code;
        }
        let fitting = self.texts.iter().filter(|(target, _)| target.jit_runs_on(arch.capability()));
        match fitting.max_by_key(|(target, _)| *target) {
            None => Need::NotFor,
            Some((target, text)) => {
                let portability: Portability = arch.portability.max(target.portability);
                Need::Ptx(text, Target { portability, ..arch })
            }
        }
    }

    /// Returns whether the image has machine code for an architecture, or for any if none is given.
    pub(crate) fn has_code(&self, arch: impl Into<Option<Target>>) -> bool {
        runs(&self.code, arch.into())
    }

    /// Returns the architectures of its baked code.
    pub(crate) fn baked(&self, entries: &[Entry]) -> Vec<Target> {
        let its = entries.iter().filter(|entry| entry.key == self.key);
        let mut targets: Vec<_> = its.filter_map(Entry::target).collect();
        targets.sort_unstable();
        targets
    }
}

/// Returns whether code for one of these targets runs on an architecture, or whether there is any code if none is
/// given.
pub(crate) fn runs(code: &[Target], arch: Option<Target>) -> bool {
    match arch {
        None => !code.is_empty(),
        Some(arch) => code.iter().any(|target| target.binary_runs_on(arch.capability())),
    }
}

/// Returns the path where a program looks for its baked code.
pub(crate) fn beside(binary: &Path) -> PathBuf {
    let mut path: OsString = binary.into();
    path.push(baked::SUFFIX);
    path.into()
}

/// Reads the baked code of a binary from the file at its side. A damaged file only causes a warning, as programs
/// ignore it, too.
pub(crate) fn read_beside(binary: &Path) -> Vec<Entry> {
    match bake::read(&beside(binary)) {
        Err(Shared::Missing { .. }) => Vec::new(),
        Err(failure) => {
            terminal::say(format_args!("warning: {}", kernel_registry_command::with_causes(&failure)));
            Vec::new()
        }
        Ok(entries) => entries,
    }
}

/// Returns the architectures of each image's baked code.
pub(crate) fn baked_beside<'a>(binary: &Contents<'a>) -> BTreeMap<DeclaredImage<'a>, Vec<Target>> {
    let entries = read_beside(&binary.path);
    if entries.is_empty() {
        return BTreeMap::new();
    }
    let images = PtxImage::declared(binary).into_iter();
    let targets = |image: PtxImage<'a>| {
        let baked = image.baked(&entries);
        image.declared_as.into_iter().map(move |declared| (declared, baked.clone()))
    };
    images.flat_map(targets).collect()
}
