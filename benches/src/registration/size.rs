//! How large the programs are.

use std::fs;

use super::crates::Compared;
use crate::Result;
use crate::workshop::{Package, Profile};

/// The sizes of the three programs, in bytes.
pub struct Sizes {
    /// With annotated kernels.
    pub annotated: u64,
    /// With kernels made by hand.
    pub bare: u64,
    /// Without kernels.
    pub none: u64,
}

impl Sizes {
    /// Builds the programs, and looks.
    pub fn measure(crates: &Compared, profile: Profile) -> Result<Self> {
        let size = |package: &Package| -> Result<u64> {
            package.build(profile)?;
            Ok(fs::metadata(package.program(profile))?.len())
        };
        Ok(Sizes {
            annotated: size(&crates.annotated)?,
            bare: size(&crates.bare)?,
            none: size(&crates.none)?,
        })
    }
}
