//! A launch of a kernel: its checks, what it waits for, the room that its blocks have, and its execution.

pub(crate) mod execution;
pub(crate) mod rooms;
pub(crate) mod shape;
pub(crate) mod span;
pub(crate) mod submit;
