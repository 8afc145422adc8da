//! What an annotated kernel costs, beside the same information handed to `inventory::submit!` by hand.

pub mod crates;
pub mod image;
pub mod rebuild;
pub mod size;
pub mod startup;

/// Kernels in each of the compared crates.
pub const KERNELS: usize = 1000;

/// Modules over which they are spread, each in a file of its own, as nobody has a thousand in one.
pub const MODULES: usize = 20;
