//! The progress of a warm-up: its stage, and how many images of that stage are done.

use std::fmt;

/// The progress of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The current stage.
    pub stage: Stage,
    /// Images, or pieces of large images, compiled so far. Only [`Stage::Load`] compiles.
    pub done: usize,
    /// How many images and pieces are to be compiled.
    pub of: usize,
}

/// A stage of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Stage {
    /// Choosing kernels and images.
    Plan,
    /// Loading images, and compiling images without machine code.
    Load,
    /// Getting each kernel's handle from its image, which loads the kernel.
    Resolve,
    /// Reading the attributes of each kernel.
    Read,
    /// Raising the stack limit, granting dynamic shared memory.
    Limits,
    /// Launching kernel-registry's own kernels, for which the driver sets up printf, assert and malloc.
    Prime,
    /// Asking the driver whether every kernel is loaded. From here on launches find the kernels.
    Verify,
    /// Running the `#[warmup]` functions.
    Hooks,
}

impl Stage {
    /// Returns the stage's name in lower case: `load`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Stage::Plan => "plan",
            Stage::Load => "load",
            Stage::Resolve => "resolve",
            Stage::Read => "read",
            Stage::Limits => "limits",
            Stage::Prime => "prime",
            Stage::Hooks => "hooks",
            Stage::Verify => "verify",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
