//! Groups the functions of memory.

pub(crate) mod allocate;
pub(crate) mod copy;
pub(crate) mod fill;
mod location;
pub(crate) mod managed;
pub(crate) mod pointer;
pub(crate) mod pools;
