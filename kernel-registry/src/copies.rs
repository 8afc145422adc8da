//! Other copies of kernel-registry in the program, whose kernels this copy cannot warm.
//!
//! Cargo builds two copies if packages ask for two versions, or for one version from two sources. The linker puts the records of
//! all copies into one section, but each copy has its own list of registrations.

use std::fmt;

use crate::Place;

/// Another copy of kernel-registry in this program. This copy can neither find the other copy's kernels nor warm them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct OtherCopy {
    /// The version of the other copy.
    pub version: &'static str,
    /// The kernels that are registered with the other copy, ordered by path.
    pub kernels: Vec<Place>,
}

impl OtherCopy {
    /// Returns whether a kernel whose path is `path`, or ends with it, is registered with the other copy.
    pub(crate) fn has(&self, path: &str) -> bool {
        let is_called = |start: &str| start.is_empty() || start.ends_with("::");
        self.kernels.iter().any(|kernel| kernel.path.strip_suffix(path).is_some_and(is_called))
    }
}

/// The version of this copy.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The remedy: how to build a program with one copy.
pub(crate) const REMEDY: &str = "let all packages depend on one version of kernel-registry from one source; `cargo tree -d` shows which do not";

/// How many kernels are named. Further kernels are only counted.
const NAMED: usize = 8;

/// Writes `2 kernels are registered with another copy of kernel-registry (version 0.2.0):`, then a line for each kernel.
impl fmt::Display for OtherCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherCopy { version, kernels } = self;
        let count = kernels.len();
        if count == 0 {
            return write!(
                f,
                "no kernels are registered with another copy of kernel-registry (version {version})"
            );
        }
        let are = if count == 1 { " is" } else { "s are" };
        write!(
            f,
            "{count} kernel{are} registered with another copy of kernel-registry (version {version}):"
        )?;
        kernels.iter().take(NAMED).try_for_each(|place| write!(f, "\n  `{}` at {place}", place.path))?;
        match count.saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_kernels_are_named() {
        let place = |line| Place { path: "a::b", package: "a", version: "1.2.3", file: "src/lib.rs", line };
        let copy = |kernels| OtherCopy { version: "0.2.0", kernels: (1..=kernels).map(place).collect() };
        assert_eq!(
            copy(1).to_string(),
            "1 kernel is registered with another copy of kernel-registry (version 0.2.0):\n  \
             `a::b` at src/lib.rs:1 (a 1.2.3)"
        );
        let many = copy(10).to_string();
        assert!(many.starts_with("10 kernels are registered with another copy"), "{many}");
        assert!(many.ends_with("`a::b` at src/lib.rs:8 (a 1.2.3)\n  and 2 more"), "{many}");
    }
}
