//! Interprets PTX on the CPU: runs kernels from PTX text as nvcc and NVRTC write it.
//!
//! [`Program::load`] decodes a text, and fails with the line of anything that isn't PTX. A kernel with an
//! instruction that the interpreter doesn't know is refused at its launch. A [`Module`] is a program with an
//! address for each variable. A [`Grid`] is one launch, which runs in steps, so a caller can run several at
//! once, stop one, and see which one waits for something that never happens.
//!
//! Addresses of global memory are addresses of the process. A caller's [`Memory`] decides which of them a
//! kernel may access.
//!
//! ```
//! use std::sync::Arc;
//!
//! use kernel_registry_ptx::{Grid, LaunchParameters, Memory, MemoryFault, Module, Program, Status};
//!
//! /// Memory that has no bytes: the kernel below needs none.
//! struct Nothing;
//!
//! // SAFETY: no address is allowed.
//! unsafe impl Memory for Nothing {
//!     fn check(&self, _: u64, _: u64) -> Result<*mut u8, MemoryFault> {
//!         Err(MemoryFault::Unallocated)
//!     }
//!     fn malloc(&self, _: u64) -> u64 {
//!         0
//!     }
//!     fn free(&self, _: u64) -> Result<(), MemoryFault> {
//!         Err(MemoryFault::Unallocated)
//!     }
//!     fn print(&self, text: &str) {
//!         print!("{text}");
//!     }
//!     fn now(&self) -> u64 {
//!         0
//!     }
//! }
//!
//! let program = Program::load(".visible .entry stops() { trap; }")?;
//! let module = Arc::new(Module::new(Arc::new(program), Vec::new()));
//! let one_thread = LaunchParameters {
//!     grid: [1; 3],
//!     block: [1; 3],
//!     cluster: None,
//!     dynamic_shared: 0,
//!     stack: 0,
//!     resident: 1,
//!     barrier: 0,
//!     arguments: Vec::new(),
//! };
//! let mut grid = Grid::new(&module, "stops", one_thread)?;
//! let Status::Fault(fault) = grid.step(1000, &Nothing) else { panic!("it runs into a trap") };
//! assert!(fault.to_string().starts_with("kernel `stops`, block (0, 0, 0), thread (0, 0, 0): ran into a trap"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod decode;
mod error;
mod matrix;
mod op;
mod order;
mod parse;
mod pressure;
mod program;
mod races;
mod run;
mod slot;
mod types;

pub use address::{MOST_LOCAL, MOST_SHARED};
pub use error::{LaunchError, LoadError, Reason};
pub use order::Scope;
pub use program::{Lacking, Module, Program, Variable};
pub use races::{AccessKind, Knowledge, Race, Races, Remedy, Side, Work};
pub use run::explore::Group;
pub use run::fault::{Fault, FaultKind};
pub use run::grid::{Grid, LaunchParameters, Status};
pub use run::memory::{Memory, MemoryFault};
pub use run::stuck::{Polled, Stuck, Waits};

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
