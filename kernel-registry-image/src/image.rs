//! An image as a whole: which kind it is, and its variants.

use kernel_registry_format::fatbin::is_fatbin;

use crate::find::Index;
use crate::{Entry, Error, Needs, StackFrames, Target, cubin, elf, fatbin, ptx};

/// One compiled file with kernels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Image {
    /// What kind of file it is.
    pub kind: ImageKind,
    /// What it holds, in the order of the file. A fatbin can be without any that this crate reads.
    pub variants: Vec<Variant>,
    /// Variants of a fatbin that cannot be read, such as those of newer CUDA toolkits. There are others then.
    pub unread: Vec<Unread>,
    pub(crate) index: Index,
}

/// A variant that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Unread {
    /// The architecture that it is for: 90 for `sm_90`.
    pub sm: u32,
    /// Why it cannot be read.
    pub error: Error,
}

impl Image {
    fn new(kind: ImageKind, variants: Vec<Variant>) -> Self {
        Image { kind, variants, unread: Vec::new(), index: Index::default() }
    }
}

/// The kinds of image files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// Text in NVIDIA's portable assembly language, which the driver compiles when it loads it.
    Ptx,
    /// Machine code for one architecture.
    Cubin,
    /// A container of PTX and cubins, from which the driver chooses.
    Fatbin,
}

/// The same kernels, compiled for one target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Variant {
    /// Whether it is PTX or machine code.
    pub kind: VariantKind,
    /// The architecture that it was compiled for.
    pub target: Target,
    /// The CUDA toolkit that made it, such as `13.0`, where the image says so.
    pub toolkit: Option<String>,
    /// Its kernels, in the order of the file.
    pub entries: Vec<Entry>,
    /// Each of its kernels can be compiled without the others: it is a PTX text of its own, and they share no variable, no texture, and no
    /// address of a function. False where that is not certain.
    pub separable: bool,
}

/// Whether a variant is PTX or machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VariantKind {
    /// PTX, for the driver to compile.
    Ptx {
        /// The version of the language, major and minor. A driver refuses one newer than itself.
        version: (u8, u8),
    },
    /// Machine code.
    Cubin,
}

impl Variant {
    /// Whether a device of this compute capability (major, minor) can run it, as far as the target goes.
    ///
    /// See [`Target::jit_runs_on`] and [`Target::binary_runs_on`] for the rules. The driver has the
    /// last word, because it can also be too old for the toolkit that made the variant.
    pub fn runs_on(&self, capability: (u32, u32)) -> bool {
        match self.kind {
            VariantKind::Ptx { .. } => self.target.jit_runs_on(capability),
            VariantKind::Cubin => self.target.binary_runs_on(capability),
        }
    }

    /// The kernel of this symbol.
    pub fn entry(&self, symbol: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.symbol == symbol)
    }
}

impl Image {
    /// The names of its variants, as nvcc calls them, separated by commas: `sm_90` for machine code, `compute_75` for PTX.
    pub fn variant_names(&self) -> String {
        let name = |variant: &Variant| {
            let target = variant.target.to_string();
            match variant.kind {
                VariantKind::Ptx { .. } => target.replacen("sm_", "compute_", 1),
                VariantKind::Cubin => target,
            }
        };
        self.variants.iter().map(name).collect::<Vec<_>>().join(",")
    }

    /// Services of the driver that a kernel uses, in any variant.
    pub fn needs(&self, symbol: &str) -> Needs {
        let mut needs = self.named(symbol).into_iter().fold(Needs::NONE, |all, entry| all.and(entry.needs));
        needs.unknown |= !self.unread.is_empty();
        needs
    }

    /// Whether it is the text of one PTX module whose kernels can be [compiled apart](Variant::separable).
    pub fn is_separable(&self) -> bool {
        self.kind == ImageKind::Ptx && matches!(self.variants.as_slice(), [variant] if variant.separable)
    }

    /// Stack frames of a kernel that the driver does not report: the most of all variants.
    pub fn stack_frames(&self, symbol: &str) -> StackFrames {
        self.named(symbol).into_iter().fold(StackFrames::KNOWN, |most, entry| StackFrames {
            recursive: most.recursive.max(entry.frames.recursive),
            launched: most.launched.max(entry.frames.launched),
        })
    }
}

/// Reads an image of any kind.
///
/// # Errors
///
/// The bytes are not an image, or a damaged one: see [`Error`]. An image without kernels is no error.
pub fn read(bytes: &[u8]) -> Result<Image, Error> {
    if is_fatbin(bytes) {
        let (variants, unread) = fatbin::read(bytes)?;
        Ok(Image { unread, ..Image::new(ImageKind::Fatbin, variants) })
    } else if elf::is_elf(bytes) {
        Ok(Image::new(ImageKind::Cubin, vec![cubin::read(bytes)?]))
    } else if ptx::is_ptx(bytes) {
        Ok(Image::new(ImageKind::Ptx, ptx::read(bytes)?))
    } else {
        Err(Error::NotAnImage)
    }
}
