//! Compares the cost of a kernel with `#[gpu_kernel]` and of a kernel written by hand, with a typed launch function
//! and without.

pub mod crates;
pub mod image;
pub mod rebuild;
pub mod startup;

use crate::Result;

/// The number of kernels in each of the compared crates.
pub const KERNELS: usize = 1000;

/// The number of modules that contain these kernels, each in its own file: real programs do not have a thousand
/// kernels in a file.
pub const MODULES: usize = 20;

/// A value for each of the compared crates.
#[derive(Default)]
pub struct Each<T> {
    /// The value for the program that declares each kernel with `#[gpu_kernel]`.
    pub annotated: T,
    /// The value for the program that declares each kernel as a struct under `inventory::submit!`, with a typed launch
    /// function.
    pub by_hand: T,
    /// The value for the program with these structs alone.
    pub bare: T,
}

/// A value for a crate with kernels, and a value for the same crate without kernels.
pub struct Kernels<T> {
    /// The value for the crate with kernels.
    pub with: T,
    /// The value for the crate without kernels.
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
