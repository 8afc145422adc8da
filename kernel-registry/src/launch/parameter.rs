//! Describes what a parameter accepts, for launches that compare arguments with parameters at run time.

use kernel_registry_format::{Param, Pass};

/// Returns whether a parameter has 8 bytes of unknown type, probably an address. The image of a kernel without a declaration may not
/// say more.
pub(super) fn is_unknown(param: &Param<'_>) -> bool {
    matches!(param.pass, Pass::Pointer | Pass::PointerMut) && param.element_size == 0
}

/// Returns what a parameter accepts, in words.
pub(super) fn describe(pass: Pass) -> &'static str {
    match pass {
        Pass::Value => "a value",
        Pass::Slice => "a slice of values",
        Pass::SliceMut => "a mutable slice of values",
        Pass::Pointer | Pass::PointerMut => "a pointer to values",
    }
}
