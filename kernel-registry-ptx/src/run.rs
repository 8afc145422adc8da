//! Groups the interpreter's execution of a launch: its blocks and warps run in turns.

mod access;
mod block;
mod collective;
mod execute;
pub(crate) mod fault;
pub(crate) mod grid;
mod intrinsic;
mod matrix;
pub(crate) mod memory;
mod printf;
mod schedule;
mod spin;
mod turn;
mod warp;
mod watch;
