//! Defines the errors of loading a PTX text and of launching one of its kernels.

use std::error::Error;
use std::fmt;

use crate::address::{MOST_LOCAL, MOST_SHARED};
use crate::program::Lacking;

/// An error: a text cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The line in the text, counted from 1.
    pub line: u32,
    /// The statement, or the part of it that is wrong.
    pub statement: String,
    /// The reason why the statement is wrong.
    pub reason: Reason,
}

/// The reason why a statement is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The statement is not PTX, or not in the form that compilers write.
    Syntax,
    /// The statement has an opcode, type or modifier that is not simulated.
    Instruction,
    /// The statement names a predefined register, or a function of another module, that the interpreter does
    /// not know.
    Lacking(String),
    /// The statement names a register, variable, label or function that is not declared.
    Name(String),
    /// The statement has a type or a modifier that the instruction cannot have, or lacks one that it must
    /// have.
    Form,
    /// The statement declares a name again.
    Again(String),
    /// The operands do not fit the instruction.
    Operands,
    /// The declared object is larger than its address space allows.
    TooLarge {
        /// The bytes that the object takes.
        bytes: u64,
        /// The most bytes that it may take.
        limit: u64,
    },
}

impl LoadError {
    pub(crate) fn syntax(line: u32, statement: &str) -> Self {
        Self { line, statement: statement.trim().to_owned(), reason: Reason::Syntax }
    }

    pub(crate) fn again(line: u32, name: &str) -> Self {
        Self { line, statement: name.to_owned(), reason: Reason::Again(name.to_owned()) }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the PTX: `{}` ", self.line, self.statement)?;
        match &self.reason {
            Reason::Syntax => f.write_str("is not valid PTX; compile the source with nvcc or NVRTC"),
            Reason::Instruction => f.write_str(
                "is not simulated, or a type or modifier of it is not; keep it out of simulated runs, or compile it for \
                 an older architecture",
            ),
            Reason::Lacking(name) => {
                write!(f, "names `{name}`, which is not simulated; keep it out of simulated runs")
            }
            Reason::Name(name) => write!(f, "names `{name}`, which is not declared; declare it first"),
            Reason::Form => f.write_str(
                "has a type or a modifier that it cannot have, or lacks one; compare it with the PTX manual",
            ),
            Reason::Again(name) => write!(f, "declares `{name}` again; give it another name"),
            Reason::TooLarge { bytes, limit } => {
                write!(f, "takes {bytes} bytes, and {limit} is the most; make it smaller")
            }
            Reason::Operands => f.write_str("has operands that do not fit; compare them with the PTX manual"),
        }
    }
}

impl Error for LoadError {}

/// The reason why a kernel cannot be launched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchError {
    /// The program has no kernel with this name.
    NoKernel {
        /// The name in the launch.
        kernel: String,
    },
    /// The grid, the block or the cluster is empty or too large, or they do not fit each other.
    Shape {
        /// The name of the kernel.
        kernel: String,
    },
    /// A block needs too much shared memory, or a thread too much local memory.
    Memory {
        /// The name of the kernel.
        kernel: String,
        /// Bytes of shared memory of a block. [`MOST_SHARED`](crate::MOST_SHARED) is the limit.
        shared: u64,
        /// Bytes of local memory of a thread. [`MOST_LOCAL`](crate::MOST_LOCAL) is the limit.
        local: u64,
    },
    /// The kernel contains something that the interpreter does not know.
    Lacking {
        /// The name of the kernel.
        kernel: String,
        /// The part that the interpreter does not know.
        lacking: Lacking,
    },
    /// The arguments are smaller than the parameters.
    Arguments {
        /// The name of the kernel.
        kernel: String,
        /// The bytes of the kernel's parameters.
        expected: usize,
        /// The bytes of the arguments.
        found: usize,
    },
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKernel { kernel } => {
                write!(f, "the program has no kernel `{kernel}`; ask for one of its entries")
            }
            Self::Shape { kernel } => write!(
                f,
                "grid, block and cluster of `{kernel}` do not fit each other or the kernel; use 1 to 1024 threads \
                 within its bounds, and a grid of whole clusters",
            ),
            Self::Memory { kernel, shared, local } => write!(
                f,
                "`{kernel}` needs {shared} bytes of shared memory a block and {local} bytes of local memory a thread; \
                 {MOST_SHARED} and {MOST_LOCAL} are the most, so make arrays smaller",
            ),
            Self::Lacking { kernel, lacking } => {
                write!(f, "`{kernel}` cannot run: {lacking}; run it on a GPU")
            }
            Self::Arguments { kernel, expected, found } => write!(
                f,
                "`{kernel}` takes {expected} bytes of arguments, not {found}; pass each parameter, aligned",
            ),
        }
    }
}

impl Error for LaunchError {}
