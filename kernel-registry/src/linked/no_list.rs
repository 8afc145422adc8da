//! The empty lists for targets on which the linker cannot pass kernels to this library.

use super::Linked;

pub(super) fn count() -> usize {
    0
}

pub(super) fn kernels() -> impl Iterator<Item = Linked> {
    std::iter::empty()
}

#[cfg(feature = "linked")]
pub(super) fn fatbins() -> impl Iterator<Item = super::Fatbin> {
    std::iter::empty()
}
