//! The images of a binary that have PTX, which drivers compile, and their baked code.

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

use super::embedded::Embedded;
use crate::binary::Contents;
use crate::binary::declared_image::Recorded;

/// An image with PTX.
pub(crate) struct PtxImage<'a> {
    /// The file that declarations name, or the place in the binary.
    pub(crate) name: String,
    /// What records say of it, if kernels are declared with it.
    pub(crate) recorded: Vec<Recorded<'a>>,
    /// By which its baked code is found.
    pub(crate) key: [u8; 32],
    pub(crate) kernels: usize,
    texts: Vec<(Target, Cow<'a, [u8]>)>,
    /// The machine code in it.
    code: Vec<Target>,
}

/// What an architecture needs of an image.
pub(crate) enum Need<'t> {
    /// The image has machine code.
    Code,
    /// Nothing of it runs there.
    NotFor,
    /// This PTX has to be compiled for this target: `sm_90a` for an sm_90, if the PTX is for that alone.
    Ptx(&'t [u8], Target),
}

impl<'a> PtxImage<'a> {
    /// The images of declared kernels that have PTX, and then all other PTX texts, each once.
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

    /// Those of declared kernels.
    pub(crate) fn declared(binary: &Contents<'a>) -> Vec<Self> {
        let embedded = Embedded::find(binary, |_| true);
        let length = |recorded: &Recorded<'_>| usize::try_from(recorded.len).unwrap_or(usize::MAX);
        let search = Search::new(binary.data, embedded.iter().map(|(recorded, _)| length(recorded)));
        let mut images: Vec<PtxImage<'a>> = Vec::new();
        for (recorded, found) in embedded.iter() {
            // What reads the same may have other code.
            let is_found = |image: &Image| found.image.as_deref() == Some(image);
            for bytes in search.bytes(length(recorded)) {
                let image = read(bytes).ok().filter(is_found).and_then(|image| Self::new(bytes, &image));
                let Some(image) = image else { continue };
                match images.iter_mut().find(|other| other.key == image.key) {
                    Some(other) => other.recorded.push(*recorded),
                    None => {
                        let name = recorded.file.to_owned();
                        images.push(PtxImage { name, recorded: vec![*recorded], ..image });
                    }
                }
            }
        }
        images
    }

    /// An image without a name, if it has PTX.
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
            recorded: Vec::new(),
            key: bake::key(counting, Options::default()),
            kernels,
            code: code.map(|variant| variant.target).collect(),
            texts,
        })
    }

    /// Bytes of PTX.
    pub(crate) fn len(&self) -> usize {
        self.texts.iter().map(|(_, text)| text.len()).sum()
    }

    /// What devices of an architecture need. Of several texts drivers take the newest that fits.
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

    /// Whether it has machine code for devices of an architecture, or for any.
    pub(crate) fn has_code(&self, arch: impl Into<Option<Target>>) -> bool {
        runs(&self.code, arch.into())
    }

    /// The architectures of its baked code.
    pub(crate) fn baked(&self, entries: &[Entry]) -> Vec<Target> {
        let its = entries.iter().filter(|entry| entry.key == self.key);
        let mut targets: Vec<_> = its.filter_map(Entry::target).collect();
        targets.sort_unstable();
        targets
    }
}

/// Whether code for one of these runs on devices of an architecture, or there is some at all.
pub(crate) fn runs(code: &[Target], arch: Option<Target>) -> bool {
    match arch {
        None => !code.is_empty(),
        Some(arch) => code.iter().any(|target| target.binary_runs_on(arch.capability())),
    }
}

/// The file of baked code that programs look for beside themselves.
pub(crate) fn beside(binary: &Path) -> PathBuf {
    let mut path: OsString = binary.into();
    path.push(baked::SUFFIX);
    path.into()
}

/// What is in the file beside a binary. Says so if that is damaged, and then it is as if it was not there.
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

/// The architectures for which images of a binary have code in the file beside it.
pub(crate) fn baked_beside<'a>(binary: &Contents<'a>) -> BTreeMap<Recorded<'a>, Vec<Target>> {
    let entries = read_beside(&binary.path);
    if entries.is_empty() {
        return BTreeMap::new();
    }
    let images = PtxImage::declared(binary).into_iter();
    let targets = |image: PtxImage<'a>| {
        let baked = image.baked(&entries);
        image.recorded.into_iter().map(move |recorded| (recorded, baked.clone()))
    };
    images.flat_map(targets).collect()
}
