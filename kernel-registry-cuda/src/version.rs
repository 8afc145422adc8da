//! Versions of CUDA, and of the PTX that came with each.

use core::fmt;

/// A version of CUDA, such as 12.4. That of a driver is the newest that it supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion(u32);

impl CudaVersion {
    /// Version `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        CudaVersion(major * 1000 + minor * 10)
    }

    /// Of the number that drivers have: 12040 for 12.4.
    pub const fn from_number(number: u32) -> Self {
        CudaVersion(number)
    }

    /// The number that drivers have.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The number before the point.
    pub const fn major(self) -> u32 {
        self.0 / 1000
    }

    /// The number after the point.
    pub const fn minor(self) -> u32 {
        self.0 % 1000 / 10
    }

    /// The newest PTX that its drivers take and its compilers write, as major and minor version.
    ///
    /// By NVIDIA's release notes each version of CUDA since 11.0 came with a newer PTX, but 12.6 did not. Of versions before 11.0,
    /// which had PTX 6.5 at most, it says 6.0.
    pub const fn newest_ptx(self) -> (u16, u16) {
        let (major, minor) = (self.major() as u16, self.minor() as u16);
        match (major, minor) {
            (..=10, _) => (6, 0),
            (12, 6..) => (8, minor - 1),
            _ => (major - 4, minor),
        }
    }

    /// The first version that takes this PTX.
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
    fn ptx_is_as_new_as_its_cuda() {
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
    fn versions_are_written_as_people_write_them() {
        assert_eq!(CudaVersion::from_number(12_040).to_string(), "12.4");
        assert_eq!(CudaVersion::new(13, 0).number(), 13_000);
    }
}
