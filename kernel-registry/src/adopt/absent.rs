//! Replaces `adopt` where no modules are adopted: without the feature `adopt`, and on systems other than Linux.

#[cfg(feature = "runtime")]
use crate::KernelInfo;
use crate::driver::{ContextId, Current, Function};

/// Makes a driver call of kernel-registry itself.
#[inline]
pub(crate) fn own<T>(call: impl FnOnce() -> T) -> T {
    call()
}

pub(crate) fn is_adopted(_: &'static [u8]) -> bool {
    false
}

pub(crate) fn refused(_: &'static [u8]) -> Option<String> {
    None
}

pub(crate) fn enter(
    _: &Current<'_>,
    _: ContextId,
    _: &'static [u8],
    _: bool,
    _: impl Iterator<Item = (&'static str, Function)>,
) {
}

pub(crate) fn forget(_: ContextId) {}

#[cfg(feature = "runtime")]
pub(crate) fn add(_: &'static [u8], _: &[&'static KernelInfo], _: Option<&str>) {}

#[cfg(feature = "runtime")]
pub(crate) fn why_not_in_place() -> Option<&'static str> {
    Some("modules can be adopted on Linux only")
}
