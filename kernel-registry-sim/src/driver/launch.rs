//! Groups the parts of a kernel launch: its checks, what it waits for, the room for its blocks, and its execution.

pub(crate) mod execution;
pub(crate) mod rooms;
pub(crate) mod shape;
pub(crate) mod span;
pub(crate) mod submit;
