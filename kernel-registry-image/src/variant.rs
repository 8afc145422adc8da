//! Defines a variant of an image: its kernels for one architecture.

use crate::{Entry, Target};

/// The kernels of an image as compiled for one target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Variant {
    /// Whether it is PTX or machine code.
    pub kind: VariantKind,
    /// The architecture that the variant was compiled for.
    pub target: Target,
    /// The CUDA toolkit that made the variant, such as `13.0`, if the image says so.
    pub toolkit: Option<String>,
    /// The kernels, in the order of the file.
    pub entries: Vec<Entry>,
    /// Whether each of its kernels can be compiled without the others: it's a single PTX module, and the
    /// kernels share no variable, no texture and no address of a function. False if that isn't certain.
    pub separable: bool,
    /// A variable that a kernel may write or the host may set, or a texture: launches leave values in it, and
    /// each load of the image has another one. In machine code it's the section. `None` if there certainly
    /// isn't one; an unknown form counts as one.
    pub variable: Option<String>,
}

/// Whether a variant is PTX or machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VariantKind {
    /// PTX, for the driver to compile.
    Ptx {
        /// The version of the language, major and minor. A driver refuses PTX newer than itself.
        version: (u8, u8),
    },
    /// Machine code.
    Cubin,
}

impl Variant {
    /// Returns whether a device of this compute capability (major, minor) can run the variant, as far as the
    /// target tells.
    ///
    /// See [`Target::jit_runs_on`] and [`Target::binary_runs_on`] for the rules. The driver has the last
    /// word, because it may also be too old for the toolkit that made the variant.
    pub fn runs_on(&self, capability: (u32, u32)) -> bool {
        match self.kind {
            VariantKind::Ptx { .. } => self.target.jit_runs_on(capability),
            VariantKind::Cubin => self.target.binary_runs_on(capability),
        }
    }

    /// Returns the kernel of this symbol.
    pub fn entry(&self, symbol: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.symbol == symbol)
    }
}
