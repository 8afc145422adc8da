//! What an annotated kernel costs, beside the same information handed to `inventory::submit!` by hand.

pub mod crates;
pub mod image;
pub mod rebuild;
pub mod startup;

/// Kernels in each of the compared crates.
pub const KERNELS: usize = 1000;

/// Modules over which they are spread, each in a file of its own, as nobody has a thousand in one.
pub const MODULES: usize = 20;

/// Something of each of the compared crates.
pub struct Each<T> {
    /// Of the one with each kernel under `#[gpu_kernel]`.
    pub annotated: T,
    /// Of the one with each kernel a struct of the same information, under `inventory::submit!`.
    pub bare: T,
    /// Of the one with the annotated crate's `main`, and no kernels.
    pub none: T,
}

impl<T> Each<T> {
    /// Does the same with each.
    pub fn map<U>(&self, mut with: impl FnMut(&T) -> U) -> Each<U> {
        Each { annotated: with(&self.annotated), bare: with(&self.bare), none: with(&self.none) }
    }

    /// Does the same with each, up to the first failure.
    pub fn try_map<U>(&self, mut with: impl FnMut(&T) -> crate::Result<U>) -> crate::Result<Each<U>> {
        Ok(Each { annotated: with(&self.annotated)?, bare: with(&self.bare)?, none: with(&self.none)? })
    }
}

impl Each<f64> {
    /// What a kernel adds to this number in the annotated crate, and in the one made by hand.
    pub fn a_kernel(&self) -> [f64; 2] {
        [self.annotated, self.bare].map(|with| (with - self.none) / KERNELS as f64)
    }
}
