//! The CUDA version of a driver.

use std::fmt;

use kernel_registry_cuda::CudaVersion as Version;

/// The first version with functions that list a module's kernels and tell whether they are loaded.
pub(super) const SINCE: CudaVersion = CudaVersion::new(12, 4);

/// A CUDA version, such as 12.4. That of a driver is the newest that it supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion(Version);

impl CudaVersion {
    /// Version `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        CudaVersion(Version::new(major, minor))
    }

    /// The version from the number that the driver returns.
    pub(super) fn from_number(number: i32) -> Self {
        CudaVersion(Version::from_number(number.unsigned_abs()))
    }

    /// The number that the driver's functions take.
    pub(super) const fn number(self) -> i32 {
        self.0.number().cast_signed()
    }

    /// The newest PTX that a driver of this version takes.
    pub(crate) const fn newest_ptx(self) -> (u16, u16) {
        self.0.newest_ptx()
    }

    /// Whether a driver of this version has `cuFuncIsLoaded`.
    pub(crate) fn can_tell_what_is_loaded(self) -> bool {
        self >= SINCE
    }

    /// Whether a driver of this version has `CU_JIT_SPLIT_COMPILE`. Older ones refuse options that they do not know.
    pub(super) fn can_compile_in_threads(self) -> bool {
        self >= CudaVersion::new(13, 0)
    }

    /// The number before the point.
    pub const fn major(self) -> u32 {
        self.0.major()
    }

    /// The number after the point.
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
