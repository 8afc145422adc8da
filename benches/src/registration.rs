//! The cost of an annotated kernel, compared with the same written by hand: with a typed launch function, and without.

pub mod crates;
pub mod image;
pub mod rebuild;
pub mod startup;

use crate::Result;

/// Kernels in each of the compared crates.
pub const KERNELS: usize = 1000;

/// Modules that contain these kernels, each in its own file, because real programs do not have a thousand in one.
pub const MODULES: usize = 20;

/// Something of each of the compared crates.
#[derive(Default)]
pub struct Each<T> {
    /// For the program that declares each kernel with `#[gpu_kernel]`.
    pub annotated: T,
    /// For the program that declares each kernel as a struct under `inventory::submit!`, with a typed launch function.
    pub by_hand: T,
    /// For the program with these structs alone.
    pub bare: T,
}

/// Something of a crate with kernels, and of one that differs from it by having none.
pub struct Kernels<T> {
    /// With the kernels.
    pub with: T,
    /// Without.
    pub without: T,
}

impl<T> Each<T> {
    /// Does the same with each, up to the first failure.
    pub fn try_map<U>(&self, mut with: impl FnMut(&T) -> Result<U>) -> Result<Each<U>> {
        Ok(Each { annotated: with(&self.annotated)?, by_hand: with(&self.by_hand)?, bare: with(&self.bare)? })
    }

    /// Does the same with each.
    pub fn map<'a, U>(&'a self, mut with: impl FnMut(&'a T) -> U) -> Each<U> {
        Each { annotated: with(&self.annotated), by_hand: with(&self.by_hand), bare: with(&self.bare) }
    }
}

impl<T> Kernels<T> {
    /// Does the same with both, up to the first failure.
    pub fn try_map<U>(&self, mut with: impl FnMut(&T) -> Result<U>) -> Result<Kernels<U>> {
        Ok(Kernels { with: with(&self.with)?, without: with(&self.without)? })
    }
}

impl Kernels<f64> {
    /// The difference that one kernel makes.
    pub fn a_kernel(&self) -> f64 {
        (self.with - self.without) / KERNELS as f64
    }
}
