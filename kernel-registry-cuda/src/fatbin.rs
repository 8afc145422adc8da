//! Reads the headers of fatbins, the containers of PTX and cubins, and writes whole fatbins.
//!
//! A file is a sequence of containers, with zeros between them. A container has a header of 16 bytes,
//! followed by entries. The header of an entry gives the entry's kind, architecture and compression.

mod write;

use core::fmt;

use crate::target::{Portability, Target};
pub use write::{Part, write};

const MAGIC: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();
const HEADER_LEN: usize = 16;
const ENTRY_HEADER_LEN: usize = 64;

const CONTAINER: &str = "a fatbin";
const ENTRY: &str = "an entry of a fatbin";

/// Flags of an entry.
pub mod flag {
    /// The payload is compressed with LZ4.
    pub const LZ4: u64 = 0x2000;
    /// The payload is compressed with Zstandard.
    pub const ZSTD: u64 = 0x8000;
    /// The entry is for one architecture only, such as `sm_90a`.
    pub const ARCH: u64 = 0x10_0000;
    /// The entry is for a family of architectures, such as `sm_100f`.
    pub const FAMILY: u64 = 0x20_0000;
}

/// One entry of a fatbin.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The number of the container in the file, counted from 1.
    pub container: usize,
    /// The kind of code in the payload.
    pub kind: Kind,
    /// Major and minor version of the PTX language, or of the cubin's format.
    pub version: (u16, u16),
    /// The architecture of the code: 90 for `sm_90`.
    pub sm: u32,
    /// The sum of the [`flag`]s that are set.
    pub flags: u64,
    /// Length of the payload if it's compressed, otherwise 0.
    pub packed_len: u32,
    /// Length of the decompressed payload. Only used if the payload is compressed.
    pub plain_len: u64,
    /// The options for the compiler of PTX, such as `-maxrregcount=32`, if the header tells them.
    pub options: Option<&'a [u8]>,
    /// The bytes of the entry, compressed or not.
    pub payload: &'a [u8],
}

impl Entry<'_> {
    /// Returns the architecture that the entry's header names. A cubin's own header can be more precise.
    pub fn target(&self) -> Target {
        let portability = match self.flags {
            flags if flags & flag::ARCH != 0 => Portability::Exact,
            flags if flags & flag::FAMILY != 0 => Portability::Family,
            _ => Portability::Forward,
        };
        Target { sm: self.sm, portability }
    }
}

/// The kind of code in the payload of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PTX text.
    Ptx,
    /// Machine code in an ELF file.
    Cubin,
    /// Code for link-time optimisation, which the driver can't load.
    Link,
    /// A kind that this library does not know.
    Other(u16),
}

/// Why bytes can't be read as a fatbin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The bytes end too early.
    Truncated {
        /// The container or entry that is cut off.
        place: &'static str,
        /// The number of bytes that this part should have.
        needed: u64,
        /// The number of bytes that are left.
        available: u64,
    },
    /// The bytes contradict the format.
    Malformed {
        /// The container or entry that is malformed.
        place: &'static str,
        /// The contradiction, in words.
        problem: &'static str,
    },
}

/// Returns whether a fatbin begins at the start of `bytes`.
pub fn is_fatbin(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Returns the length of the container at the start of `bytes`, or `None` if there is no whole container.
pub fn container_len(bytes: &[u8]) -> Option<usize> {
    let (_, after) = container(bytes).ok()?;
    Some(bytes.len() - after.len())
}

/// Returns the PTX in a fatbin that the driver compiles for devices of these capabilities: the newest that
/// runs on all of them. `None` if some device runs machine code of the fatbin, if the PTX has options for the
/// compiler, or if it isn't clear which PTX that is.
pub fn compiled_ptx<'a>(fatbin: &'a [u8], capabilities: &[(u32, u32)]) -> Option<Entry<'a>> {
    let (mut newest, mut same) = (None::<Entry<'a>>, 0);
    for entry in entries(fatbin) {
        let entry = entry.ok()?;
        let target = entry.target();
        match entry.kind {
            Kind::Cubin if capabilities.iter().any(|device| target.binary_runs_on(*device)) => return None,
            Kind::Ptx if capabilities.iter().all(|device| target.jit_runs_on(*device)) => {
                let before = newest.map(|newest| newest.target());
                same = if before == Some(target) { same + 1 } else { same };
                if before.is_none_or(|before| before < target) {
                    (newest, same) = (Some(entry), 0);
                }
            }
            Kind::Cubin | Kind::Ptx => {}
            // The driver may link it.
            Kind::Link | Kind::Other(_) => return None,
        }
    }
    // This one only prints.
    let is_plain = |entry: &Entry<'_>| matches!(entry.options.map(<[u8]>::trim_ascii), Some(b"" | b"-v"));
    newest.filter(|newest| same == 0 && !capabilities.is_empty() && is_plain(newest))
}

/// Iterates over the entries of all containers of a file. After an error the iteration ends.
pub fn entries(file: &[u8]) -> Entries<'_> {
    Entries { number: 0, container: &[], rest: file }
}

/// The iterator that [`entries`] returns.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    /// How many containers have been started.
    number: usize,
    /// The entries of the current container that are not read yet.
    container: &'a [u8],
    /// The bytes after the current container.
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
        let (entry, after) = entry(self.container, self.number)?;
        self.container = after;
        Ok(Some(entry))
    }
}

/// Splits off the container at the start: returns its entries, and the bytes after it.
fn container(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    if !is_fatbin(bytes) {
        return Err(Error::Malformed { place: CONTAINER, problem: "it has bytes outside of any container" });
    }
    let (header, _) = split(CONTAINER, bytes, HEADER_LEN as u64)?;
    let header_len = u64::from(u16::from_le_bytes(array(header, 6)));
    if header_len < HEADER_LEN as u64 {
        return Err(Error::Malformed { place: CONTAINER, problem: "its header is too short" });
    }
    let (_, rest) = split(CONTAINER, bytes, header_len)?;
    split(CONTAINER, rest, u64::from_le_bytes(array(header, 8)))
}

/// Splits off the entry at the start: returns the entry, and the bytes after it.
fn entry(bytes: &[u8], container: usize) -> Result<(Entry<'_>, &[u8]), Error> {
    let (header, _) = split(ENTRY, bytes, ENTRY_HEADER_LEN as u64)?;
    let header_len = u32::from_le_bytes(array(header, 4));
    if (header_len as usize) < ENTRY_HEADER_LEN {
        return Err(Error::Malformed { place: ENTRY, problem: "its header is too short" });
    }
    let (whole, rest) = split(ENTRY, bytes, header_len.into())?;
    let (payload, rest) = split(ENTRY, rest, u64::from_le_bytes(array(header, 8)))?;
    let kind = match u16::from_le_bytes(array(header, 0)) {
        1 => Kind::Ptx,
        2 => Kind::Cubin,
        // Older compilers write 4, newer compilers write 8.
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
        options: options(whole),
        payload,
    };
    Ok((entry, rest))
}

/// Returns the options in the header of an entry.
fn options(header: &[u8]) -> Option<&[u8]> {
    let at = u32::from_le_bytes(array(header, 20)) as usize;
    // The place, and the length. A header without them names none, or its end.
    if at == 0 || at == header.len() {
        return Some(&[]);
    }
    header.get(at..)?.get(..8)?;
    let begin = u32::from_le_bytes(array(header, at)) as usize;
    let length = u32::from_le_bytes(array(header, at + 4)) as usize;
    header.get(begin..)?.get(..length)
}

/// Splits off the first `len` bytes. `place` names the part in the error.
fn split<'a>(place: &'static str, bytes: &'a [u8], len: u64) -> Result<(&'a [u8], &'a [u8]), Error> {
    let split = usize::try_from(len).ok().and_then(|len| bytes.split_at_checked(len));
    split.ok_or(Error::Truncated { place, needed: len, available: bytes.len() as u64 })
}

/// Returns `N` bytes at `offset` of a header. The caller has checked that the header is long enough.
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

    #[test]
    fn the_driver_compiles_the_newest_ptx_if_no_machine_code_runs() {
        let part = |kind, sm, flags| Part { kind, sm, flags, bytes: b".version 8.0\n" };
        let ptx = |sm| part(Kind::Ptx, sm, 0);
        let compiled = |parts: &[Part<'_>], capabilities: &[(u32, u32)]| {
            compiled_ptx(&write(parts), capabilities).map(|entry| entry.sm)
        };
        let hopper = [(9, 0)];
        assert_eq!(compiled(&[ptx(75), ptx(120), ptx(80)], &hopper), Some(80));
        assert_eq!(compiled(&[ptx(75), ptx(120), ptx(80)], &[(9, 0), (7, 5)]), Some(75));
        // Machine code of an older architecture doesn't run there.
        assert_eq!(compiled(&[ptx(80), part(Kind::Cubin, 86, 0)], &hopper), Some(80));
        assert_eq!(compiled(&[ptx(80), part(Kind::Cubin, 90, 0)], &hopper), None);
        assert_eq!(compiled(&[ptx(80), part(Kind::Cubin, 90, flag::ARCH)], &hopper), None);
        assert_eq!(compiled(&[ptx(80), part(Kind::Cubin, 80, 0)], &[(9, 0), (8, 6)]), None);
        // It isn't clear which of two is compiled, or whether they're linked.
        assert_eq!(compiled(&[ptx(80), ptx(80)], &hopper), None);
        assert_eq!(compiled(&[ptx(80), ptx(80), ptx(90)], &hopper), Some(90));
        assert_eq!(compiled(&[ptx(90)], &[(8, 0)]), None);
        assert_eq!(compiled(&[ptx(90)], &[]), None);
        assert_eq!(compiled(&[part(Kind::Ptx, 90, flag::ARCH)], &[(10, 0)]), None);
        let mut cut = write(&[ptx(80)]);
        cut.pop();
        assert!(compiled_ptx(&cut, &hopper).is_none());

        // As nvcc writes options: behind the header are their place, their length, and the text.
        let with_options = |options: &[u8]| {
            let mut fatbin = write(&[ptx(80)]);
            let before = usize::from(fatbin[HEADER_LEN + 4]);
            let room = 8 + options.len().next_multiple_of(8);
            let place = [0x48_u32, options.len() as u32].map(u32::to_le_bytes).concat();
            let padded = options.iter().copied().chain([0; 8]).take(room - 8);
            let place_of_options = HEADER_LEN + ENTRY_HEADER_LEN..HEADER_LEN + before;
            fatbin.splice(place_of_options, place.into_iter().chain(padded));
            fatbin[8] = (fatbin.len() - HEADER_LEN) as u8;
            fatbin[HEADER_LEN + 4] = (ENTRY_HEADER_LEN + room) as u8;
            fatbin[HEADER_LEN + 20] = ENTRY_HEADER_LEN as u8;
            assert_eq!(entries(&fatbin).next().unwrap().unwrap().options, Some(options));
            compiled_ptx(&fatbin, &hopper).is_some()
        };
        assert!(with_options(b"") && with_options(b"-v  "));
        assert!(!with_options(b" -maxrregcount=32 ") && !with_options(b"-O1  "));
    }

    /// Returns a container with two empty entries, of these kinds.
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
