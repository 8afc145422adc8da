//! Names what a thread did that ended its kernel.

use std::fmt;

/// What a thread did that ended its kernel, as NVIDIA's debugger numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exception {
    /// An access to an address that isn't mapped.
    IllegalAddress,
    /// An access to an address that isn't a multiple of its size.
    MisalignedAddress,
    /// An access outside of local or shared memory.
    OutOfRangeAddress,
    /// An access to the wrong kind of memory.
    WrongAddressSpace,
    /// Calls that need more stack than there is.
    StackOverflow,
    /// An instruction that doesn't exist.
    IllegalInstruction,
    /// A jump to where there is no code.
    InvalidPc,
    /// An `assert` that failed.
    Assert,
    /// A trap, such as `__trap()`.
    Trap,
    /// Another exception.
    Other(u32),
}

impl Exception {
    /// Returns the exception with a number of `CUDBGException_t`, unless it means none.
    pub(super) fn new(number: u32) -> Option<Self> {
        Some(match number {
            0 => return None,
            1 | 10 | 14 => Exception::IllegalAddress,
            2 | 3 | 9 => Exception::StackOverflow,
            4 => Exception::IllegalInstruction,
            5 => Exception::OutOfRangeAddress,
            6 | 11 => Exception::MisalignedAddress,
            7 => Exception::WrongAddressSpace,
            8 => Exception::InvalidPc,
            12 => Exception::Assert,
            other => Exception::Other(other),
        })
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Exception::IllegalAddress => "an access to an illegal address",
            Exception::MisalignedAddress => "an access to a misaligned address",
            Exception::OutOfRangeAddress => "an access outside of local or shared memory",
            Exception::WrongAddressSpace => "an access to the wrong kind of memory",
            Exception::StackOverflow => "an overflow of the stack",
            Exception::IllegalInstruction => "an illegal instruction",
            Exception::InvalidPc => "a jump to where there is no code",
            Exception::Assert => "an assert that failed",
            Exception::Trap => "a trap",
            Exception::Other(number) => return write!(f, "exception {number}"),
        })
    }
}
