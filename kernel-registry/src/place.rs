//! Where a kernel or a `#[warmup]` function is declared.

use std::fmt;

use kernel_registry_format::KernelRecord;

/// Where a kernel or `#[warmup]` function is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Place {
    /// Its path.
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
    /// Called by expansions of `#[warmup]`.
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

/// `src/lib.rs:12 (kernels 0.1.0)`, without a package for a kernel that was made at run time, and without a line for one that nvcc linked.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if self.package.is_empty() { Ok(()) } else { write!(f, " ({} {})", self.package, self.version) }
    }
}
