//! Reads the lists of kernels and fatbins that were registered in this program or shared library.

use super::{Linked, shim};

/// Returns how many registrations of kernels there were; a kernel can be registered more than once. The list has at least as many
/// kernels.
pub(super) fn count() -> usize {
    shim::heads().count()
}

/// Returns the registered kernels, the latest first.
pub(super) fn kernels() -> impl Iterator<Item = Linked> {
    shim::heads().kernels()
}

/// Returns the registered fatbins, the latest first.
#[cfg(feature = "linked")]
pub(super) fn fatbins() -> impl Iterator<Item = super::Fatbin> {
    shim::heads().fatbins()
}
