//! Groups the functions that compute the results of instructions: arithmetic, bits, conversions, atomics.

pub(crate) mod arithmetic;
pub(crate) mod atomic;
pub(crate) mod bits;
mod convert;
mod exact;
pub(crate) mod float;
pub(crate) mod fp8;
