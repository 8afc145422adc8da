//! `Place`, the source line where a kernel or a `#[warmup]` function is declared.

use std::fmt;

use kernel_registry_format::KernelRecord;

/// The package and source line where a kernel or a `#[warmup]` function is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Place {
    /// The path of the kernel or function.
    pub path: &'static str,
    /// The package.
    pub package: &'static str,
    /// The package's version.
    pub version: &'static str,
    /// The source file.
    pub file: &'static str,
    /// The line.
    pub line: u32,
}

impl Place {
    /// Creates a place. Expansions of `#[warmup]` call this.
    #[doc(hidden)]
    pub const fn new(
        path: &'static str,
        package: &'static str,
        version: &'static str,
        file: &'static str,
        line: u32,
    ) -> Self {
        Place { path, package, version, file, line }
    }

    pub(crate) fn from_record(kernel: &KernelRecord<'static>) -> Self {
        let KernelRecord { path, package, version, file, line, .. } = *kernel;
        Place { path, package, version, file, line }
    }
}

/// Writes `src/lib.rs:12 (kernels 0.1.0)`. A kernel that was compiled at run time has no package, and a kernel that nvcc linked has
/// neither package nor line.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if self.package.is_empty() { Ok(()) } else { write!(f, " ({} {})", self.package, self.version) }
    }
}
