//! Defines an image: its kind and its variants.

use crate::names::Index;
use crate::{Error, Needs, StackFrames, Variant, VariantKind};

/// One compiled file with kernels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Image {
    /// The kind of file.
    pub kind: ImageKind,
    /// The variants, in the order of the file. A fatbin can have no variant that this crate reads.
    pub variants: Vec<Variant>,
    /// Variants of a fatbin that cannot be read, such as variants by newer CUDA toolkits. At least one other
    /// variant can be read.
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
    pub(crate) fn new(kind: ImageKind, variants: Vec<Variant>) -> Self {
        Image { kind, variants, unread: Vec::new(), index: Index::default() }
    }
}

/// The kinds of image files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// Text in NVIDIA's portable assembly language. The driver compiles it at load time.
    Ptx,
    /// Machine code for one architecture.
    Cubin,
    /// A container of PTX and cubins, from which the driver chooses.
    Fatbin,
}

impl Image {
    /// Returns the names of the variants, as nvcc spells them, separated by commas: `sm_90` for machine code,
    /// `compute_75` for PTX.
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

    /// Returns the services of the driver that a kernel uses in any variant.
    pub fn needs(&self, symbol: &str) -> Needs {
        let mut needs = self.named(symbol).into_iter().fold(Needs::NONE, |all, entry| all.and(entry.needs));
        needs.unknown |= !self.unread.is_empty();
        needs
    }

    /// Returns whether the image is a single PTX module whose kernels can be [compiled
    /// separately](Variant::separable).
    pub fn is_separable(&self) -> bool {
        self.kind == ImageKind::Ptx && matches!(self.variants.as_slice(), [variant] if variant.separable)
    }

    /// Returns a [variable](Variant::variable) of any variant. An unread variant counts as one.
    pub fn variable(&self) -> Option<&str> {
        let unread = || (!self.unread.is_empty()).then_some("a variant that cannot be read");
        self.variants.iter().find_map(|variant| variant.variable.as_deref()).or_else(unread)
    }

    /// Returns the stack frames of a kernel that the driver doesn't report: the largest in any variant.
    pub fn stack_frames(&self, symbol: &str) -> StackFrames {
        self.named(symbol).into_iter().fold(StackFrames::KNOWN, |most, entry| StackFrames {
            recursive: most.recursive.max(entry.frames.recursive),
            launched: most.launched.max(entry.frames.launched),
        })
    }
}
