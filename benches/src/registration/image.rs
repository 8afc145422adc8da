//! Counts how often a program contains a large image that many of its kernels share.

use std::fs;

use super::crates;
use crate::Result;
use crate::workshop::{Profile, Workshop};

/// The number of kernels that share the image, each in a separate module.
pub const KERNELS: usize = 60;

/// The bytes of the image in addition to its kernels: 1 MB.
pub const LENGTH: usize = 1_000_000;

/// The number of copies of an image in a program.
pub struct Copies {
    /// At how many offsets the image's bytes occur.
    pub count: usize,
    /// The size of the program in bytes.
    pub program: usize,
}

impl Copies {
    /// Builds the program, and searches it for a piece from the middle of the image.
    pub fn count(workshop: &Workshop, profile: Profile) -> Result<Self> {
        let noise = noise(LENGTH);
        let piece = &noise.as_bytes()[LENGTH / 2..][..64];
        let package = crates::sharing(workshop, KERNELS, &noise)?;
        package.build(profile)?;
        let program = fs::read(package.program(profile))?;
        let count = program.windows(piece.len()).filter(|window| *window == piece).count();
        Ok(Copies { count, program: program.len() })
    }
}

/// Returns a comment without repetitions, so that no piece of it occurs elsewhere by chance.
fn noise(length: usize) -> String {
    let mut state = 1_u64;
    let letters = std::iter::repeat_with(|| {
        // Knuth's constants for MMIX. Only the high bits are random.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 60) as u8)
    });
    "// ".chars().chain(letters).take(length - 1).chain(['\n']).collect()
}
