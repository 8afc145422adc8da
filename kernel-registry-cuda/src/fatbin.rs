//! Fatbins, the containers of PTX and cubins: their headers are read, and whole ones written.
//!
//! A file is a sequence of containers, with zeros between them. Each has a header of 16 bytes and then entries, each
//! with a header that says what it is, for which architecture, and how it is packed.

mod write;

use core::fmt;

pub use write::{Part, write};

const MAGIC: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();
const HEADER_LEN: usize = 16;
const ENTRY_HEADER_LEN: usize = 64;

const CONTAINER: &str = "a fatbin";
const ENTRY: &str = "an entry of a fatbin";

/// Flags of entries.
pub mod flag {
    /// Packed with LZ4.
    pub const LZ4: u64 = 0x2000;
    /// Packed with Zstandard.
    pub const ZSTD: u64 = 0x8000;
    /// For this very architecture: `sm_90a`.
    pub const ARCH: u64 = 0x10_0000;
    /// For a family of architectures: `sm_100f`.
    pub const FAMILY: u64 = 0x20_0000;
}

/// One entry of a fatbin.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Which container of the file it is in, counted from 1.
    pub container: usize,
    /// What its bytes are.
    pub kind: Kind,
    /// Major and minor version: of PTX, that of its language.
    pub version: (u16, u16),
    /// The architecture that it is for: 90 for `sm_90`.
    pub sm: u32,
    /// Any of [`flag`].
    pub flags: u64,
    /// Length of the packed bytes, or 0 if they are not packed.
    pub packed_len: u32,
    /// Length of the bytes once unpacked.
    pub plain_len: u64,
    /// The bytes, packed or not.
    pub payload: &'a [u8],
}

/// Kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PTX text.
    Ptx,
    /// Machine code.
    Cubin,
    /// Code for link-time optimisation, which is no image.
    Link,
    /// A kind that is not known here.
    Other(u16),
}

/// Why bytes are no fatbin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// They end too early.
    Truncated {
        /// The part that is cut off.
        place: &'static str,
        /// How many bytes it should have.
        needed: u64,
        /// How many are there.
        available: u64,
    },
    /// They contradict the format.
    Malformed {
        /// The part that does.
        place: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Whether a fatbin begins here.
pub fn is_fatbin(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The length of the container at the start, if there is one and it is whole.
pub fn container_len(bytes: &[u8]) -> Option<usize> {
    let (_, behind) = container(bytes).ok()?;
    Some(bytes.len() - behind.len())
}

/// The entries of all containers of a file. An error is the last item.
pub fn entries(file: &[u8]) -> Entries<'_> {
    Entries { number: 0, container: &[], rest: file }
}

/// Iterator of [`entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    /// Counts containers.
    number: usize,
    /// The rest of the current container.
    container: &'a [u8],
    /// The bytes after that container.
    rest: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.step().transpose();
        if let Some(Err(_)) = next {
            (self.container, self.rest) = (&[], &[]);
        }
        next
    }
}

impl<'a> Entries<'a> {
    fn step(&mut self) -> Result<Option<Entry<'a>>, Error> {
        while self.container.is_empty() {
            let Some(start) = self.rest.iter().position(|byte| *byte != 0) else { return Ok(None) };
            (self.container, self.rest) = container(&self.rest[start..])?;
            self.number += 1;
        }
        let (entry, behind) = entry(self.container, self.number)?;
        self.container = behind;
        Ok(Some(entry))
    }
}

/// The entries of the container at the start, and the bytes after it.
fn container(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    if !is_fatbin(bytes) {
        return Err(Error::Malformed { place: CONTAINER, problem: "there is something else behind it" });
    }
    let (header, _) = split(CONTAINER, bytes, HEADER_LEN as u64)?;
    let header_len = u64::from(u16::from_le_bytes(array(header, 6)));
    if header_len < HEADER_LEN as u64 {
        return Err(Error::Malformed { place: CONTAINER, problem: "its header is too short" });
    }
    let (_, rest) = split(CONTAINER, bytes, header_len)?;
    split(CONTAINER, rest, u64::from_le_bytes(array(header, 8)))
}

/// The entry at the start, and the bytes after it.
fn entry(bytes: &[u8], container: usize) -> Result<(Entry<'_>, &[u8]), Error> {
    let (header, _) = split(ENTRY, bytes, ENTRY_HEADER_LEN as u64)?;
    let header_len = u32::from_le_bytes(array(header, 4));
    if (header_len as usize) < ENTRY_HEADER_LEN {
        return Err(Error::Malformed { place: ENTRY, problem: "its header is too short" });
    }
    let (_, rest) = split(ENTRY, bytes, header_len.into())?;
    let (payload, rest) = split(ENTRY, rest, u64::from_le_bytes(array(header, 8)))?;
    let kind = match u16::from_le_bytes(array(header, 0)) {
        1 => Kind::Ptx,
        2 => Kind::Cubin,
        // Of two ages.
        4 | 8 => Kind::Link,
        other => Kind::Other(other),
    };
    let entry = Entry {
        container,
        kind,
        version: (u16::from_le_bytes(array(header, 26)), u16::from_le_bytes(array(header, 24))),
        sm: u32::from_le_bytes(array(header, 28)),
        flags: u64::from_le_bytes(array(header, 40)),
        packed_len: u32::from_le_bytes(array(header, 16)),
        plain_len: u64::from_le_bytes(array(header, 56)),
        payload,
    };
    Ok((entry, rest))
}

/// The first bytes and the others.
fn split<'a>(place: &'static str, bytes: &'a [u8], len: u64) -> Result<(&'a [u8], &'a [u8]), Error> {
    let split = usize::try_from(len).ok().and_then(|len| bytes.split_at_checked(len));
    split.ok_or(Error::Truncated { place, needed: len, available: bytes.len() as u64 })
}

/// `N` bytes at an offset of a header, which is known to be long enough.
fn array<const N: usize>(header: &[u8], offset: usize) -> [u8; N] {
    header.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Truncated { place, needed, available } => {
                write!(f, "{place} should have {needed} bytes, but {available} are there")
            }
            Error::Malformed { place, problem } => write!(f, "{place}: {problem}"),
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container with an empty entry of each of these kinds.
    fn fatbin(kinds: [u16; 2]) -> [u8; 144] {
        let mut bytes = [0; 144];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[6] = 16;
        bytes[8] = 128;
        for (kind, at) in kinds.into_iter().zip([16, 80]) {
            bytes[at..at + 2].copy_from_slice(&kind.to_le_bytes());
            bytes[at + 4] = 64;
            bytes[at + 28] = 90;
        }
        bytes
    }

    #[test]
    fn entries_of_all_containers_are_read() {
        let mut file = [0; 300];
        file[..144].copy_from_slice(&fatbin([1, 2]));
        file[150..294].copy_from_slice(&fatbin([8, 9]));
        let mut read = entries(&file).map(|entry| entry.map(|entry| (entry.container, entry.kind, entry.sm)));
        for (container, kind) in [(1, Kind::Ptx), (1, Kind::Cubin), (2, Kind::Link), (2, Kind::Other(9))] {
            assert_eq!(read.next(), Some(Ok((container, kind, 90))));
        }
        assert_eq!(read.next(), None);
        assert_eq!(container_len(&file), Some(144));
    }

    #[test]
    fn a_part_of_a_fatbin_ends_in_an_error() {
        let whole = fatbin([1, 2]);
        for len in 1..whole.len() {
            assert_eq!(container_len(&whole[..len]), None);
            let errors = entries(&whole[..len]).filter(|entry| entry.is_err()).count();
            assert_eq!(errors, 1, "{len}");
        }
        let mut endless = whole;
        endless[20] = 0;
        assert!(matches!(entries(&endless).next(), Some(Err(Error::Malformed { .. }))));
    }
}
