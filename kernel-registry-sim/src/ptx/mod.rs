//! Executes PTX, as nvcc and NVRTC write it.
//!
//! A [`Program`] is a text, decoded once; what it does not know fails then, with its line. A [`Module`] gives its
//! variables addresses. A [`Grid`] is one launch, which runs in steps: so whoever runs it can run several at once, can
//! stop one, and finds out which waits for something that does not come.
//!
//! Addresses of global memory are those of the process; [`Memory`] says which of them a kernel may use.

mod access;
mod address;
mod arithmetic;
mod bits;
mod block;
mod convert;
mod cursor;
mod declare;
mod decode;
mod error;
mod exact;
mod execute;
mod fault;
mod float;
mod form;
mod grid;
mod instruct;
mod instruct_compare;
mod instruct_copy;
mod instruct_threads;
mod intrinsic;
mod lex;
mod memory;
mod op;
mod opcode;
mod operands;
mod printf;
mod program;
mod reach;
mod spin;
mod syntax;
mod timed;
mod together;
mod types;
mod update;
mod warp;

pub use error::{LaunchError, LoadError, Reason};
pub use fault::{Fault, FaultKind};
pub use grid::{Grid, LaunchParameters, MOST_LOCAL, MOST_SHARED, Status};
pub use memory::{Memory, MemoryFault};
pub use program::{Module, Program, Variable};
