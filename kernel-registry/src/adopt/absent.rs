//! Replaces `adopt` where no modules are adopted: without the feature `adopt`, and on systems other than Linux.

#[cfg(feature = "runtime")]
use crate::KernelInfo;

pub(crate) fn is_adopted(_: &'static [u8]) -> bool {
    false
}

pub(crate) fn refused(_: &'static [u8]) -> Option<String> {
    None
}

#[cfg(feature = "runtime")]
pub(crate) fn add(_: &'static [u8], _: &[&'static KernelInfo], _: Option<&str>) {}

#[cfg(feature = "runtime")]
pub(crate) fn why_not_in_place() -> Option<&'static str> {
    Some("modules can be adopted on Linux only")
}
