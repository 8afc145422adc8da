//! Groups the interpreter's execution of a launch: its blocks and warps run in turns.

mod access;
mod block;
mod collective;
mod execute;
pub(crate) mod explore;
mod explored;
pub(crate) mod fault;
pub(crate) mod grid;
mod intrinsic;
mod matrix;
pub(crate) mod memory;
mod poll;
mod polling;
mod printf;
mod spin;
pub(crate) mod stuck;
mod turn;
mod warp;
mod watch;
