//! The functions by which instructions compute: arithmetic, bits, conversions, atomics.

pub(crate) mod arithmetic;
pub(crate) mod atomic;
pub(crate) mod bits;
mod convert;
mod exact;
mod float;
