//! What warming a thousand kernels costs, beside loading them by hand.

pub mod crates;
pub mod program;

/// Images of the compared program.
pub const IMAGES: usize = 64;

/// Kernels in each of them, of about 4 KB of machine code.
pub const EACH: usize = 16;
