//! Computes a number that identifies a copy of this package.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// Returns a number that differs between copies of this package in one program. With cargo it is the hash in the path of the output
/// folder (`kernel-registry-0123456789abcdef/out`, or `kernel-registry/0123456789abcdef/out`). Cargo computes this hash from the
/// package's version and source; it does not depend on the machine. With another build system the number is a hash of the version.
pub fn copy(out: &Path, version: &str) -> u64 {
    // Cargo puts its hash into one of the nearest folders. The names of folders further out are not cargo's.
    const NEAR: usize = 3;
    let hash = |folder: &Path| {
        let hash = folder.file_name().and_then(OsStr::to_str)?.rsplit('-').next()?;
        u64::from_str_radix(hash, 16).ok().filter(|_| hash.len() == 16)
    };
    out.ancestors().skip(1).take(NEAR).find_map(hash).unwrap_or_else(|| {
        let mut hasher = DefaultHasher::new();
        version.hash(&mut hasher);
        hasher.finish()
    })
}
