//! How often a large image is in a program that has many kernels of it.

use std::fs;

use super::crates;
use crate::Result;
use crate::workshop::{Profile, Workshop};

/// Kernels that share the image, each in a module of its own.
pub const KERNELS: usize = 60;

/// Bytes of the image: 1 MB.
pub const LENGTH: usize = 1_000_000;

/// What was found in the program.
pub struct Copies {
    /// Places at which the image's bytes are.
    pub count: usize,
    /// Bytes of the program.
    pub program: usize,
}

impl Copies {
    /// Builds the program, and looks for a piece out of the middle of the image.
    pub fn count(workshop: &Workshop, profile: Profile) -> Result<Self> {
        let image = noise(LENGTH);
        let piece = image[LENGTH / 2..][..64].to_vec();
        let package = crates::sharing(workshop, KERNELS, image)?;
        package.build(profile)?;
        let program = fs::read(package.program(profile))?;
        let count = program.windows(piece.len()).filter(|window| *window == piece).count();
        Ok(Copies { count, program: program.len() })
    }
}

/// PTX with a comment that repeats nothing, so that a piece of them is found nowhere by chance.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        // Knuth's constants for MMIX; the high bits are the random ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'a' + (state >> 60) as u8
    });
    let entry = b".version 7.0 .target sm_60 .visible .entry saxpy(.param .u32 n, .param .f32 a, \
                  .param .u64 x, .param .u64 y) { ret; } //";
    entry.iter().copied().chain(noise).take(length).collect()
}
