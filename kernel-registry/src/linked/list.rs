//! The kernels and fatbins that were registered in this program or shared library. The code that registers runs before `main`: it never looks
//! at inventory's list, whose constructors may not have run.

use super::{Linked, shim};

/// How many kernels were registered, some more than once. No kernel that it counts is missing in the list.
pub(super) fn count() -> usize {
    shim::heads().count()
}

/// The registered kernels, the latest first.
pub(super) fn kernels() -> impl Iterator<Item = Linked> {
    shim::heads().kernels()
}

/// The registered fatbins, the latest first.
#[cfg(feature = "linked")]
pub(super) fn fatbins() -> impl Iterator<Item = super::Fatbin> {
    shim::heads().fatbins()
}
