//! Functions of memory.

pub(crate) mod allocate;
pub(crate) mod copy;
pub(crate) mod fill;
pub(crate) mod managed;
pub(crate) mod pointer;
pub(crate) mod pools;
pub(crate) mod ranges;
