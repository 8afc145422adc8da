//! Shared by the benchmark `warm` and its generated programs: how many kernels there are.

pub mod crates;
pub mod program;

/// Images in the program.
pub const IMAGES: usize = 64;

/// Kernels per image, each of about 4 KB of machine code.
pub const EACH: usize = 16;
