//! Defines the numbers of kernels and images in the generated programs of the benchmark `warm`.

pub mod crates;
pub mod program;

/// Kernels in each program, each of about 4 KB of machine code.
pub const KERNELS: usize = 1024;

/// Images in a program.
pub const IMAGES: usize = 64;

/// Images in the program of large images.
pub const LARGE_IMAGES: usize = 4;
