//! The functions that instructions compute by: which one an opcode means, and what it does to values.

pub(crate) mod arithmetic;
pub(crate) mod atomic;
pub(crate) mod bits;
mod convert;
mod exact;
mod float;
