//! Groups a kernel launch: its shape with the checks, the multiprocessors that it may use, and its execution.

pub(crate) mod execution;
pub(crate) mod shape;
pub(crate) mod span;
