//! Defines the error for bytes that can't be read as an image.

use std::fmt;

use kernel_registry_cuda::fatbin;
use kernel_registry_format::{Printable, is_control};

/// Why bytes could not be read as an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are neither PTX text nor a cubin nor a fatbin.
    NotAnImage,
    /// The bytes are no core dump of a GPU.
    #[cfg(feature = "dump")]
    NotADump,
    /// The bytes are an ELF file without CUDA machine code, such as a program or library of the host.
    OtherElf {
        /// The machine in the file's header; 190 would be CUDA.
        machine: u16,
    },
    /// The image ends too early.
    Truncated {
        /// The part that is cut off.
        place: &'static str,
        /// How many bytes this part should have.
        needed: u64,
        /// How many bytes are there.
        available: u64,
    },
    /// Something in the image contradicts its format.
    Malformed {
        /// The place: a line of PTX, or a section or record.
        place: String,
        /// The contradiction, in words.
        problem: String,
    },
    /// Part of the image has an unknown form. A newer CUDA toolkit may have written it.
    UnknownFormat {
        /// The place: a section or record.
        place: String,
        /// The name of the part that has this form.
        what: &'static str,
        /// The number of the form.
        number: u16,
    },
    /// Two kernels of a variant have the same symbol, so that a launch could get either.
    Duplicate {
        /// Where the second kernel is: a line of PTX, or the symbol table.
        place: String,
        /// The symbol, or its beginning.
        symbol: String,
    },
    /// A name has control characters, such as a line break or a character that changes the direction of text.
    ControlCharacter {
        /// Where the name is.
        place: String,
        /// The name, or its beginning.
        name: String,
    },
    /// Part of the image unpacks to more than this crate accepts.
    TooLarge {
        /// The bytes that this part would have, as far as known.
        size: u64,
        /// The most bytes that are accepted.
        limit: u64,
    },
    /// An entry of a fatbin uses an unknown compression.
    UnknownCompression {
        /// The flags of the entry.
        flags: u64,
    },
}

impl Error {
    pub(crate) fn malformed(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Malformed { place: place.into(), problem: problem.into() }
    }

    pub(crate) fn duplicate(place: impl Into<String>, symbol: &str) -> Self {
        Error::Duplicate { place: place.into(), symbol: symbol.chars().take(256).collect() }
    }
}

/// Returns the name, or an error if the name has control characters.
pub(crate) fn printable<'a>(place: &str, name: &'a str) -> Result<&'a str, Error> {
    if !name.contains(is_control) {
        return Ok(name);
    }
    Err(Error::ControlCharacter { place: place.to_owned(), name: name.chars().take(256).collect() })
}

impl From<fatbin::Error> for Error {
    fn from(error: fatbin::Error) -> Self {
        match error {
            fatbin::Error::Truncated { place, needed, available } => {
                Error::Truncated { place, needed, available }
            }
            fatbin::Error::Malformed { place, problem } => Error::malformed(place, problem),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotAnImage => f.write_str("not a kernel image: neither PTX text nor a cubin nor a fatbin"),
            #[cfg(feature = "dump")]
            Error::NotADump => f.write_str(
                "not a core dump of a GPU: cuda-gdb's `generate-core-file` writes one, and the driver if \
                 CUDA_ENABLE_COREDUMP_ON_EXCEPTION is 1",
            ),
            Error::OtherElf { machine } => write!(
                f,
                "not a kernel image: an ELF file for machine {machine}, while cubins are for machine 190"
            ),
            Error::Truncated { place, needed, available } => write!(
                f,
                "the image is cut off: {place} should have {needed} bytes, but {available} are there"
            ),
            Error::Malformed { place, problem } => {
                write!(f, "malformed image: {}: {}", Printable(place), Printable(problem))
            }
            Error::UnknownFormat { place, what, number } => write!(
                f,
                "{place} has {what} {number}, which are not known here: a newer CUDA toolkit made the image; update \
                 kernel-registry, or compile with CUDA 13.0 or before"
            ),
            Error::Duplicate { place, symbol } => write!(
                f,
                "malformed image: {place}: there are two kernels `{}`, and only one could be launched; \
                 rename one of them in its source",
                Printable(symbol)
            ),
            Error::ControlCharacter { place, name } => write!(
                f,
                "{place}: the name {name:?} has control characters, which no compiler writes: do not use this image \
                 before you know who made it"
            ),
            Error::TooLarge { size, limit } => write!(
                f,
                "a packed part is too large: it unpacks to {size} bytes or more, and there is room for {limit}; build it \
                 with -compress-mode=none"
            ),
            Error::UnknownCompression { flags } => write!(
                f,
                "an entry of the fatbin is compressed in an unknown way (flags {flags:#x}); \
                 build it with -compress-mode=none"
            ),
        }
    }
}

impl std::error::Error for Error {}
