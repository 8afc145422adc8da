//! Compares the cost of a kernel with `#[gpu_kernel]` to one written by hand, with and without a typed launch
//! function.

pub mod crates;
pub mod image;
pub mod rebuild;
pub mod startup;

use crate::Result;

/// The number of kernels in each of the compared crates.
pub const KERNELS: usize = 1000;

/// The number of modules that these kernels are in, each in its own file, because real programs don't have a
/// thousand kernels in a file.
pub const MODULES: usize = 20;

/// A value for each of the compared crates.
#[derive(Default)]
pub struct Each<T> {
    /// The program that declares each kernel with `#[gpu_kernel]`.
    pub annotated: T,
    /// The program that declares each kernel as a struct under `inventory::submit!`, with a typed launch
    /// function.
    pub by_hand: T,
    /// The program with these structs alone.
    pub bare: T,
}

/// A value for a crate with kernels, and one for the same crate without.
pub struct Kernels<T> {
    /// The crate with kernels.
    pub with: T,
    /// The crate without kernels.
    pub without: T,
}

impl<T> Each<T> {
    /// Calls `with` for each crate, up to the first failure.
    pub fn try_map<U>(&self, mut with: impl FnMut(&T) -> Result<U>) -> Result<Each<U>> {
        Ok(Each { annotated: with(&self.annotated)?, by_hand: with(&self.by_hand)?, bare: with(&self.bare)? })
    }

    /// Calls `with` for each crate.
    pub fn map<'a, U>(&'a self, mut with: impl FnMut(&'a T) -> U) -> Each<U> {
        Each { annotated: with(&self.annotated), by_hand: with(&self.by_hand), bare: with(&self.bare) }
    }
}

impl<T> Kernels<T> {
    /// Calls `with` for both crates, up to the first failure.
    pub fn try_map<U>(&self, mut with: impl FnMut(&T) -> Result<U>) -> Result<Kernels<U>> {
        Ok(Kernels { with: with(&self.with)?, without: with(&self.without)? })
    }
}

impl Kernels<f64> {
    /// Returns the difference that one kernel makes.
    pub fn a_kernel(&self) -> f64 {
        (self.with - self.without) / KERNELS as f64
    }
}
