//! Checks that the crates that a program expects have registered kernels.

use std::collections::BTreeSet;

use super::error::WarmError;
use crate::kernels;

/// Returns an error if one of these crates has no kernel in the registry. A crate `my_kernels` may be the package `my-kernels`.
pub(super) fn check(expected: &[String]) -> Result<(), WarmError> {
    if expected.is_empty() {
        return Ok(());
    }
    let registered: BTreeSet<&str> = kernels()?.iter().map(|kernel| kernel.package()).collect();
    let same = |one: &str, other: &str| one.replace('-', "_") == other.replace('-', "_");
    let is_missing = |name: &&String| !registered.iter().any(|package| same(package, name));
    let missing: Vec<_> = expected.iter().filter(is_missing).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(WarmError::NotRegistered { missing, registered: registered.into_iter().collect() })
}
