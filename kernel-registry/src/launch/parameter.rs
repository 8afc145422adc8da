//! What a parameter takes, for launches that compare arguments with it.

use kernel_registry_format::{Param, Pass};

/// Whether the parameter is 8 bytes, probably an address, of which the image of a kernel that was made at run time does not
/// tell more.
pub(super) fn is_unknown(param: &Param<'_>) -> bool {
    matches!(param.pass, Pass::Pointer | Pass::PointerMut) && param.element_size == 0
}

/// What a parameter takes, in words.
pub(super) fn describe(pass: Pass) -> &'static str {
    match pass {
        Pass::Value => "a value",
        Pass::Slice => "a slice of values",
        Pass::SliceMut => "a mutable slice of values",
        Pass::Pointer | Pass::PointerMut => "a pointer to values",
    }
}
