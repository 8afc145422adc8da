//! The CUDA version of a driver, and which functions depend on it.

use std::fmt;

use kernel_registry_cuda::CudaVersion as Version;

/// The first version with `cuFuncLoad`, `cuFuncIsLoaded`, and the functions that list a module's kernels.
pub(super) const SINCE: CudaVersion = CudaVersion::new(12, 4);

/// A CUDA version, such as 12.4. The version of a driver is the newest CUDA version that the driver supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion(Version);

impl CudaVersion {
    /// Creates the version `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        CudaVersion(Version::new(major, minor))
    }

    /// Converts the number that the driver returns.
    pub(super) fn from_number(number: i32) -> Self {
        CudaVersion(Version::from_number(number.unsigned_abs()))
    }

    /// Returns the version as the number that the driver's functions take.
    pub(super) const fn number(self) -> i32 {
        self.0.number().cast_signed()
    }

    /// Returns the newest PTX version that a driver of this version accepts.
    pub(crate) const fn newest_ptx(self) -> (u16, u16) {
        self.0.newest_ptx()
    }

    /// Returns whether a driver of this version has `cuFuncIsLoaded`.
    pub(crate) fn can_tell_what_is_loaded(self) -> bool {
        self >= SINCE
    }

    /// Returns whether a driver of this version has `CU_JIT_SPLIT_COMPILE`. Older drivers refuse unknown options.
    pub(super) fn can_compile_in_threads(self) -> bool {
        self >= CudaVersion::new(13, 0)
    }

    /// Returns the number before the point.
    pub const fn major(self) -> u32 {
        self.0.major()
    }

    /// Returns the number after the point.
    pub const fn minor(self) -> u32 {
        self.0.minor()
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for CudaVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
