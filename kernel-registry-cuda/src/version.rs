//! Relates versions of CUDA to versions of PTX.

use core::fmt;

/// A version of CUDA, such as 12.4. The version of a driver is the newest CUDA version that the driver
/// supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion(u32);

impl CudaVersion {
    /// Makes the version `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        CudaVersion(major * 1000 + minor * 10)
    }

    /// Makes a version from the number that the driver uses: 12040 for 12.4.
    pub const fn from_number(number: u32) -> Self {
        CudaVersion(number)
    }

    /// Returns the number that the driver uses.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the number before the point.
    pub const fn major(self) -> u32 {
        self.0 / 1000
    }

    /// Returns the number after the point.
    pub const fn minor(self) -> u32 {
        self.0 % 1000 / 10
    }

    /// Returns the newest PTX version that drivers of this version accept and its compilers write, as major
    /// and minor version.
    ///
    /// According to NVIDIA's release notes, each version of CUDA since 11.0 except 12.6 came with a newer
    /// PTX. For CUDA before 11.0, which had PTX 6.5 at most, the result is 6.0.
    pub const fn newest_ptx(self) -> (u16, u16) {
        let (major, minor) = (self.major() as u16, self.minor() as u16);
        match (major, minor) {
            (..=10, _) => (6, 0),
            (12, 6..) => (8, minor - 1),
            _ => (major - 4, minor),
        }
    }

    /// Returns the first version of CUDA that accepts this PTX version.
    pub const fn first_with((major, minor): (u16, u16)) -> Self {
        let later = major == 8 && minor > 5;
        CudaVersion::new(major as u32 + 4, minor as u32 + later as u32)
    }
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn cuda_and_ptx_versions_correspond() {
        for (cuda, ptx) in [
            ((11, 7), (7, 7)),
            ((11, 8), (7, 8)),
            ((12, 0), (8, 0)),
            ((12, 4), (8, 4)),
            ((12, 5), (8, 5)),
            ((12, 7), (8, 6)),
            ((12, 8), (8, 7)),
            ((12, 9), (8, 8)),
            ((13, 0), (9, 0)),
            ((13, 1), (9, 1)),
        ] {
            let version = CudaVersion::new(cuda.0, cuda.1);
            assert_eq!(version.newest_ptx(), ptx, "CUDA {version}");
            assert_eq!(CudaVersion::first_with(ptx), version, "PTX {ptx:?}");
        }
        assert_eq!(CudaVersion::new(12, 6).newest_ptx(), (8, 5));
        assert_eq!(CudaVersion::new(10, 2).newest_ptx(), (6, 0));
    }

    #[test]
    fn versions_are_printed_as_major_and_minor() {
        assert_eq!(CudaVersion::from_number(12_040).to_string(), "12.4");
        assert_eq!(CudaVersion::new(13, 0).number(), 13_000);
    }
}
