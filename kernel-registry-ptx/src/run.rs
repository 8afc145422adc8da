//! The back end: runs the blocks and warps of a launch in turns.

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
mod spin;
mod turn;
mod warp;
