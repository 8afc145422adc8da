//! Defines faults of kernels. A fault ends its grid.

use std::error::Error;
use std::fmt;

use crate::run::memory::MemoryFault;

/// A fault of a kernel, with the thread and the instruction that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name of the kernel in the PTX.
    pub kernel: String,
    /// `blockIdx` of the thread.
    pub block: [u32; 3],
    /// `threadIdx` of the thread.
    pub thread: [u32; 3],
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The line of the instruction in the PTX.
    pub line: u32,
    /// The text of that line.
    pub instruction: String,
    /// File and line of the source, such as `kernel.cu:7`, if the kernel was compiled with `-lineinfo`.
    pub place: Option<String>,
}

/// The thread's mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The thread accessed global memory that it may not access.
    Global {
        /// The address of the first byte.
        address: u64,
        /// The number of bytes.
        size: u64,
        /// Whether the access was a write.
        write: bool,
        /// Why the access isn't allowed.
        why: MemoryFault,
    },
    /// The thread accessed an address that isn't a multiple of the size.
    Misaligned {
        /// The address.
        address: u64,
        /// The number of bytes.
        size: u64,
    },
    /// The thread accessed shared memory, local memory or arguments beyond their end.
    Beyond {
        /// `shared`, `local` or `parameter`.
        space: &'static str,
        /// The offset of the first byte in that memory.
        address: u64,
        /// The number of bytes.
        size: u64,
        /// The size of that memory in bytes.
        limit: u64,
    },
    /// An assertion was false.
    Assertion {
        /// The file, the line, the function, and the condition that was false.
        text: String,
    },
    /// The thread freed memory that `malloc` didn't return.
    Free {
        /// The address.
        address: u64,
        /// Why the memory can't be freed.
        why: MemoryFault,
    },
    /// The calls of the thread overflowed the stack.
    Stack {
        /// Bytes of local memory that a thread has.
        limit: u64,
    },
    /// The thread called an address where there is no function with these parameters.
    Call {
        /// The address.
        address: u64,
    },
    /// The thread launched a kernel, which isn't simulated.
    DeviceLaunch,
    /// The thread executed `trap`, or an indirect branch with an index beyond its table.
    Trap,
    /// The thread named a barrier that doesn't exist.
    Barrier {
        /// The number of the barrier.
        id: u32,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, block, thread, kind, line, instruction, place } = self;
        let index = |[x, y, z]: &[u32; 3]| format!("({x}, {y}, {z})");
        write!(f, "kernel `{kernel}`, block {}, thread {}: {kind}", index(block), index(thread))?;
        let place = place.as_ref().map(|place| format!("{place}, ")).unwrap_or_default();
        write!(f, " ({place}line {line} of the PTX: `{instruction}`)")
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global { address, size, write, why } => {
                let does = if *write { "writes" } else { "reads" };
                write!(f, "{does} {size} bytes at {address:#x}, {why}")
            }
            Self::Misaligned { address, size } => write!(
                f,
                "accesses {size} bytes at {address:#x}, which is not a multiple of {size}; align the data",
            ),
            Self::Beyond { space, address, size, limit } => write!(
                f,
                "accesses {size} bytes at {address:#x} of {limit} bytes of {space} memory; compare the index \
                 with the size, and the size with the launch",
            ),
            Self::Assertion { text } => write!(f, "{text}"),
            Self::Free { address, why } => write!(f, "frees {address:#x}, {why}"),
            Self::Stack { limit } => {
                write!(f, "overflows its stack of {limit} bytes; raise the stack limit")
            }
            Self::Call { address } => write!(
                f,
                "calls {address:#x}, where there is no function of this module with such parameters; take the address \
                 in device code",
            ),
            Self::DeviceLaunch => f.write_str(
                "launches a kernel, which is not simulated; launch it from the host, or test it on a GPU",
            ),
            Self::Trap => f.write_str("ran into a trap; look for the condition that leads there"),
            Self::Barrier { id } => write!(f, "waits at barrier {id}; there are 16, from 0"),
        }
    }
}

impl Error for Fault {}
