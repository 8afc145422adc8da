//! Groups failures by image and cause, so that a cause is written once. A refused image fails all of its kernels, and the
//! text of the cause can be long.

use std::fmt;

use super::failure::Failure;

/// How many kernels of a group are named. Further kernels are only counted.
const NAMED: usize = 8;

/// Kernels of one image that failed for one cause.
pub(super) struct Group<'a> {
    first: &'a Failure,
    others: Vec<&'a Failure>,
}

/// Groups failures by image and cause. Groups are in the order of their first failures.
pub(super) fn groups(failures: &[Failure]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for failure in failures {
        match groups.iter_mut().find(|group| key(group.first) == key(failure)) {
            Some(group) => group.others.push(failure),
            None => groups.push(Group { first: failure, others: Vec::new() }),
        }
    }
    groups
}

/// Returns a key that is equal for kernels of one image that failed for one cause.
fn key(failure: &Failure) -> impl PartialEq {
    let Failure { kernel: _, place, image, variants, arch, cause } = failure;
    (place.package, place.version, image, variants, arch, cause)
}

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Group { first, others } = self;
        if others.is_empty() {
            return write!(f, "{first}");
        }
        write!(f, "{} kernels, `{}`", 1 + others.len(), first.kernel)?;
        for other in others.iter().take(NAMED - 1) {
            write!(f, ", `{}`", other.kernel)?;
        }
        match (1 + others.len()).saturating_sub(NAMED) {
            0 => {}
            more => write!(f, " and {more} more")?,
        }
        f.write_str(", ")?;
        first.write_reason(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cause, Place};

    fn failure(kernel: &'static str, image: &'static str, symbol: &'static str) -> Failure {
        let place = Place { path: kernel, package: "a", version: "1.0.0", file: "src/lib.rs", line: 3 };
        let cause = match symbol {
            "" => Cause::NotLoaded,
            symbol => Cause::NoEntry { symbol },
        };
        Failure { kernel, place, image: Some(image), variants: "sm_80", arch: 90, cause }
    }

    fn text(failures: &[Failure]) -> Vec<String> {
        groups(failures).iter().map(Group::to_string).collect()
    }

    #[test]
    fn a_kernel_that_fails_alone_is_named_with_its_source_line() {
        let alone = failure("a::x", "x.ptx", "");
        assert_eq!(text(std::slice::from_ref(&alone)), [alone.to_string()]);
        assert!(
            alone
                .to_string()
                .starts_with("kernel `a::x` at src/lib.rs:3 (a 1.0.0), image `x.ptx` on sm_90: ")
        );
    }

    #[test]
    fn an_equal_cause_is_written_once_for_each_image() {
        let mut elsewhere = failure("b::x", "x.ptx", "");
        elsewhere.place.package = "b";
        let failures = [
            failure("a::x", "x.ptx", ""),
            failure("a::other", "y.ptx", ""),
            failure("a::y", "x.ptx", ""),
            failure("a::z", "x.ptx", "z"),
            elsewhere,
        ];
        let text = text(&failures);
        assert_eq!(text.len(), 4, "{text:?}");
        assert!(
            text[0].starts_with("2 kernels, `a::x`, `a::y`, image `x.ptx` on sm_90: loading it succeeded"),
            "{text:?}"
        );
        assert_eq!(text[1..], [&failures[1], &failures[3], &failures[4]].map(Failure::to_string));
    }

    #[test]
    fn only_eight_kernels_are_named() {
        let eight = vec![failure("a::x", "x.ptx", ""); 8];
        assert!(text(&eight)[0].starts_with("8 kernels, "));
        assert!(!text(&eight)[0].contains("more"));
        let many = text(&vec![failure("a::x", "x.ptx", ""); 100]);
        assert_eq!(many.len(), 1);
        assert!(many[0].contains("`a::x` and 92 more, image `x.ptx`"), "{many:?}");
    }
}
